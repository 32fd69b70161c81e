// The open chat as data: its entries and the answer being written. Takes events and calls `onChange`.

import { Draft } from "./draft.js";

export class Conversation {
  constructor(id, onChange) {
    this.id = id;
    this.onChange = onChange;
    this.loaded = false;
    this.title = "";
    this.items = new Map();
    this.draft = null;
    this.fetches = 0; // only the response to the newest fetch counts
    this.pending = []; // events that arrived during a fetch
  }

  /** Replace everything with the gateway's state, then apply the events that arrived meanwhile. */
  load({ title, items, draft }) {
    this.title = title;
    this.items = new Map(items.map((item) => [keyOf(item), item]));
    const thoughts = this.draft?.turn === draft?.turn ? this.draft?.thoughts : ""; // the gateway does not keep them
    this.draft = draft ? new Draft(draft) : null;
    if (thoughts) this.draft?.addThoughts(thoughts);
    this.loaded = true;
    const pending = this.pending;
    this.pending = [];
    skipKnownText(pending, draft?.text ?? "").forEach((event) => this.apply(event));
    this.onChange();
  }

  /** Keep events back until `load` is called. Return the number of the fetch that should call it. */
  invalidate() {
    this.loaded = false;
    this.pending = [];
    return ++this.fetches;
  }

  handle(event) {
    if (!this.loaded) this.pending.push(event);
    else if (this.apply(event)) this.onChange();
  }

  get isBusy() {
    const open = [...this.items.values()].some((item) => item.kind === "user" && item.state !== "done");
    return open || Boolean(this.draft && !this.draft.ended);
  }

  get isEmpty() {
    return !this.items.size && !this.draft;
  }

  /** Return the user's messages with these ids. */
  messages(ids) {
    return ids.map((id) => this.items.get(`user ${id}`)).filter(Boolean);
  }

  /** Return the entries in reading order: an answer follows the last message it answers, before those still queued. */
  inOrder() {
    const order = [];
    for (const item of this.items.values()) {
      const answered = new Set(item.kind === "user" ? [] : item.answers);
      let at = order.findLastIndex((entry) => entry.kind === "user" && answered.has(entry.id));
      if (at < 0) at = order.length - 1;
      else while (order[at + 1] && order[at + 1].kind !== "user") at++;
      order.splice(at + 1, 0, item);
    }
    return order;
  }

  /** Return true if more changed than the draft, which redraws itself. */
  apply(event) {
    switch (event.type) {
      case "user":
      case "message":
        return this.add(event.item);
      case "started":
        this.setStates("waiting", "running");
        return this.ensureDraft(event.turn);
      case "text":
        return this.updateDraft(event, (draft) => draft.addText(event.text, event.at));
      case "reasoning":
        return this.updateDraft(event, (draft) => draft.addThoughts(event.text));
      case "restart":
        return this.updateDraft(event, (draft) => draft.restart());
      case "tool":
        return this.updateDraft(event, (draft) => draft.setTool(event.tool));
      case "ended":
        this.setStates("running", "done");
        this.draft?.end();
        return true;
      default:
        return false;
    }
  }

  add(item) {
    // A message that was sent twice is reported twice; the state we have is newer.
    if (item.kind === "user" && this.items.has(keyOf(item))) return false;
    if (item.edits && this.edit(item)) return true;
    this.items.set(keyOf(item), item);
    if (item.kind === "answer") this.draft = null;
    for (const id of item.answers ?? []) {
      const message = this.items.get(`user ${id}`);
      if (message) this.items.set(`user ${id}`, { ...message, state: "done" });
    }
    return true;
  }

  /** Change an earlier message in place. Return false if it is not here. */
  edit({ edits, text, choices }) {
    const entry = [...this.items].find(([, item]) => item.kind !== "user" && item.key === edits);
    if (entry) this.items.set(entry[0], { ...entry[1], text, choices });
    return Boolean(entry);
  }

  updateDraft(event, update) {
    const isNew = this.ensureDraft(event.turn);
    update(this.draft);
    return isNew;
  }

  /** Return true if a new draft was begun for this turn. */
  ensureDraft(turn) {
    if (this.draft?.turn === turn && !this.draft.ended) return false;
    this.draft = new Draft({ turn });
    return true;
  }

  setStates(from, to) {
    for (const [key, item] of this.items) {
      if (item.kind === "user" && item.state === from) this.items.set(key, { ...item, state: to });
    }
  }
}

export const keyOf = (item) => (item.kind === "user" ? `user ${item.id}` : `${item.kind} ${item.key}`);

const isUnplaced = (event) => event.type === "text" && event.at === undefined;

/** Cut what `known` already contains from pieces without a position that arrived during the fetch. */
function skipKnownText(events, known) {
  const texts = events.filter(isUnplaced);
  const added = texts.map((event) => event.text).join("");
  let skip = Math.min(added.length, known.length);
  while (skip && !known.endsWith(added.slice(0, skip))) skip--;
  return events.map((event) => {
    if (!isUnplaced(event) || !skip) return event;
    const length = Math.min(skip, event.text.length);
    skip -= length;
    return { ...event, text: event.text.slice(length) };
  });
}
