// The open chat as data: what was said, what waits, what is being written. Events go in, and `onChange` comes out.

import { Draft } from "./draft.js";

export class Conversation {
  constructor(id, onChange) {
    this.id = id;
    this.onChange = onChange;
    this.loaded = false;
    this.title = "";
    this.items = new Map();
    this.draft = null;
    this.asked = 0; // how often it was fetched: only the newest answer counts
    this.missed = []; // what happened meanwhile
  }

  /** Replaces everything with what the gateway says. */
  load({ title, items, draft }) {
    this.title = title;
    this.items = new Map(items.map((item) => [keyOf(item), item]));
    const known = this.draft?.turn === draft?.turn && this.draft;
    this.draft = draft ? new Draft(draft) : null;
    if (this.draft && known) this.draft.addThoughts(known.thoughts);
    this.loaded = true;
    const missed = this.missed;
    this.missed = [];
    skipKnownText(missed, draft?.text ?? "").forEach((event) => this.apply(event));
    this.onChange();
  }

  /** To be fetched anew: events are kept until it is there. */
  stale() {
    this.loaded = false;
    this.missed = [];
    return ++this.asked;
  }

  take(event) {
    if (!this.loaded) this.missed.push(event);
    else if (this.apply(event)) this.onChange();
  }

  get isBusy() {
    const open = [...this.items.values()].some((item) => item.kind === "user" && item.state !== "done");
    return open || Boolean(this.draft && !this.draft.over);
  }

  get isEmpty() {
    return !this.items.size && !this.draft;
  }

  /** What the person sent under these ids. */
  messages(ids) {
    return ids.map((id) => this.items.get(`user ${id}`)).filter(Boolean);
  }

  /** Items in reading order: an answer stands below the last message it answers, not below those still in line. */
  inOrder() {
    const order = [];
    for (const item of this.items.values()) {
      const answered = new Set(item.kind === "user" ? [] : item.answers);
      let at = order.findLastIndex((one) => one.kind === "user" && answered.has(one.id));
      if (at < 0) at = order.length - 1;
      else while (order[at + 1] && order[at + 1].kind !== "user") at++;
      order.splice(at + 1, 0, item);
    }
    return order;
  }

  /** True when more changed than the draft, which draws itself. */
  apply(event) {
    switch (event.type) {
      case "user":
      case "message":
        return this.add(event.item);
      case "started":
        this.setStates("waiting", "running");
        return this.writing(event.turn);
      case "text":
        return this.draw(event, (draft) => draft.addText(event.text, event.at));
      case "reasoning":
        return this.draw(event, (draft) => draft.addThoughts(event.text));
      case "restart":
        return this.draw(event, (draft) => draft.startAgain());
      case "tool":
        return this.draw(event, (draft) => draft.setTool(event.tool));
      case "ended":
        this.setStates("running", "done");
        this.draft?.end();
        return true;
      default:
        return false;
    }
  }

  add(item) {
    // A message that was sent twice is told twice; how it stands is known better here.
    if (item.kind === "user" && this.items.has(keyOf(item))) return false;
    if (item.edits && this.change(item)) return true;
    this.items.set(keyOf(item), item);
    if (item.kind === "answer") this.draft = null;
    for (const id of item.answers ?? []) {
      const message = this.items.get(`user ${id}`);
      if (message) this.items.set(`user ${id}`, { ...message, state: "done" });
    }
    return true;
  }

  /** What takes the place of an earlier message stands where that stood. */
  change({ edits, text, choices }) {
    const known = [...this.items].find(([, one]) => one.kind !== "user" && one.key === edits);
    if (known) this.items.set(known[0], { ...known[1], text, choices });
    return Boolean(known);
  }

  draw(event, change) {
    const isNew = this.writing(event.turn);
    change(this.draft);
    return isNew;
  }

  writing(turn) {
    if (this.draft?.turn === turn && !this.draft.over) return false;
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

/** Text that does not say where it belongs, and came while the chat was fetched, may be known: skip what overlaps. */
function skipKnownText(events, known) {
  const texts = events.filter(isUnplaced);
  const news = texts.map((event) => event.text).join("");
  let skip = Math.min(news.length, known.length);
  while (skip && !known.endsWith(news.slice(0, skip))) skip--;
  return events.map((event) => {
    if (!isUnplaced(event) || !skip) return event;
    const length = Math.min(skip, event.text.length);
    skip -= length;
    return { ...event, text: event.text.slice(length) };
  });
}
