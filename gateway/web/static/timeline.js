// Puts a conversation on the page: entries, days between them, the draft, and a scroll that follows only who is at the end.

import { byId, el } from "./dom.js";
import { keyOf } from "./conversation.js";
import { markdown } from "./markdown.js";
import { itemView, unsentView } from "./messages.js";
import { dayName, sameDay } from "./time.js";
import { Draft } from "./draft.js";

const NEAR_PX = 60;
const SPOKEN_CHARS = 1200;

export class Timeline {
  constructor({ again, discard, press, tryAgain }) {
    this.actions = { again, discard };
    this.press = press;
    this.tryAgain = tryAgain;
    this.list = byId("timeline");
    this.scroller = byId("scroll");
    this.jump = byId("jump");
    this.views = new Map(); // key -> { state, node }: what did not change keeps its node
    this.follows = true;
    this.dots = new Draft();
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.jump.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.settle()).observe(this.list);
    new ResizeObserver(() => this.settle()).observe(this.scroller);
  }

  /** Another chat: nothing of the last one stays. */
  clear() {
    this.views.clear();
    this.list.replaceChildren();
    this.follows = true;
  }

  show(conversation, unsent) {
    const nodes = [];
    const views = new Map();
    let before = null;
    const place = (key, item, make) => {
      if (!before || !sameDay(before, item.at_ms)) nodes.push(this.day(item.at_ms, views));
      before = item.at_ms;
      const state = JSON.stringify(item);
      const known = this.views.get(key);
      const view = known?.state === state ? known : { state, node: make(item) };
      views.set(key, view);
      nodes.push(view.node);
    };
    const items = conversation.inOrder();
    const inLine = items.length - (items.findLastIndex((item) => item.kind !== "user" || item.state !== "waiting") + 1);
    const isWriting = conversation.draft !== null;
    const above = isWriting ? items.length - inLine : items.length;
    const view = (item) =>
      itemView(item, { press: (choice) => this.press(item, choice), tryAgain: () => this.tryAgain(item) });
    const newest = items.findLast((item) => item.kind === "user")?.id;
    const offering = (item) => ({ ...item, canTryAgain: item.failed && item.answers.includes(newest) });
    for (const item of items.slice(0, above)) place(keyOf(item), offering(item), view);
    if (isWriting) nodes.push(conversation.draft.element);
    else if (conversation.isBusy) nodes.push(this.dots.element);
    for (const item of items.slice(above)) place(keyOf(item), offering(item), view);
    for (const message of unsent.filter((one) => !conversation.items.has(`user ${one.id}`))) {
      place(`unsent ${message.id}`, message, (one) => unsentView(one, this.actionsFor(one)));
    }
    this.views = views;
    this.put(nodes);
  }

  actionsFor(message) {
    return { again: () => this.actions.again(message), discard: () => this.actions.discard(message) };
  }

  day(ms, views) {
    const name = dayName(ms);
    const key = `day ${name}`;
    const view = this.views.get(key) ?? { node: el("li", { class: "day" }, el("span", {}, name)) };
    views.set(key, view);
    return view.node;
  }

  /** Moves only what is out of place: a node that is taken out and put back loses focus and selection. */
  put(nodes) {
    const wanted = new Set(nodes);
    for (const child of [...this.list.children]) if (!wanted.has(child)) child.remove();
    let at = this.list.firstElementChild;
    for (const node of nodes) {
      if (node === at) at = at.nextElementSibling;
      else this.list.insertBefore(node, at);
    }
    this.settle();
  }

  scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    this.follows = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    this.jump.hidden = this.follows;
  }

  settle() {
    if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    else this.scrolled();
  }

  toEnd() {
    this.follows = true;
    this.jump.hidden = true;
    this.settle();
    byId("message").focus({ preventScroll: true });
  }
}

/** Says a finished answer to a screen reader; the text as it grows is not spoken. */
export function announce(source) {
  const text = markdown(source).textContent;
  byId("spoken").textContent = text.length > SPOKEN_CHARS ? `${text.slice(0, SPOKEN_CHARS)}…` : text;
}
