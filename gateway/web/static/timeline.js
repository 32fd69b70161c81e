// Shows a conversation: entries, day separators, the draft. Scrolls along only if the reader is at the end.

import { byId, el } from "./dom.js";
import { keyOf } from "./conversation.js";
import { markdown } from "./markdown.js";
import { itemView, unsentView } from "./messages.js";
import { dayName, isSameDay } from "./time.js";
import { Draft } from "./draft.js";

const NEAR_PX = 60;
const SPOKEN_CHARS = 1200;

export class Timeline {
  constructor({ onRetry, onTakeBack, onPress, onTryAgain }) {
    Object.assign(this, { onRetry, onTakeBack, onPress, onTryAgain });
    this.list = byId("timeline");
    this.scroller = byId("scroll");
    this.jump = byId("jump");
    this.views = new Map(); // key -> { state, node }: an unchanged entry keeps its node
    this.follows = true;
    this.lastTop = 0;
    this.dots = new Draft();
    this.scroller.addEventListener("scroll", () => this.updateFollowing(), { passive: true });
    this.jump.addEventListener("click", () => this.scrollToEnd());
    new ResizeObserver(() => this.keepAtEnd()).observe(this.list);
    new ResizeObserver(() => this.keepAtEnd()).observe(this.scroller);
  }

  clear() {
    this.views.clear();
    this.list.replaceChildren();
    this.follows = true;
  }

  show(conversation, unsent) {
    const nodes = [];
    const views = new Map();
    let previous_ms = null;
    const place = (key, item, makeNode) => {
      if (!previous_ms || !isSameDay(previous_ms, item.at_ms)) nodes.push(this.dayView(item.at_ms, views));
      previous_ms = item.at_ms;
      const state = JSON.stringify(item);
      const known = this.views.get(key);
      const view = known?.state === state ? known : { state, node: makeNode(item) };
      views.set(key, view);
      nodes.push(view.node);
    };
    const items = conversation.inOrder();
    const newest = items.findLast((item) => item.kind === "user")?.id;
    const placeItem = (item) =>
      place(keyOf(item), { ...item, canTryAgain: item.failed && item.answers.includes(newest) }, (shown) =>
        itemView(shown, {
          onPress: (choice) => this.onPress(item, choice),
          onTryAgain: () => this.onTryAgain(item),
        }),
      );
    // The draft stands above the messages that are still queued.
    const firstQueued = items.findLastIndex((item) => item.kind !== "user" || item.state !== "waiting") + 1;
    const end = conversation.draft ? firstQueued : items.length;
    items.slice(0, end).forEach(placeItem);
    if (conversation.draft) nodes.push(conversation.draft.element);
    else if (conversation.isBusy) nodes.push(this.dots.element);
    items.slice(end).forEach(placeItem);
    for (const message of unsent.filter(({ id }) => !conversation.items.has(`user ${id}`))) {
      place(`unsent ${message.id}`, message, () =>
        unsentView(message, {
          onRetry: () => this.onRetry(message),
          onTakeBack: () => this.onTakeBack(message),
        }),
      );
    }
    this.views = views;
    this.replaceNodes(nodes);
  }

  dayView(ms, views) {
    const name = dayName(ms);
    const key = `day ${name}`;
    const view = this.views.get(key) ?? { node: el("li", { class: "day" }, el("span", {}, name)) };
    views.set(key, view);
    return view.node;
  }

  /** Move only nodes that are out of place: one that is removed and inserted again loses focus and selection. */
  replaceNodes(nodes) {
    const wanted = new Set(nodes);
    for (const child of [...this.list.children]) if (!wanted.has(child)) child.remove();
    let at = this.list.firstElementChild;
    for (const node of nodes) {
      if (node === at) at = at.nextElementSibling;
      else this.list.insertBefore(node, at);
    }
    this.keepAtEnd();
  }

  /** Stop following only when the reader scrolls up: content may also grow before a scroll event arrives. */
  updateFollowing() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) this.follows = true;
    else if (scrollTop < this.lastTop) this.follows = false;
    this.lastTop = scrollTop;
    this.jump.hidden = this.follows;
  }

  keepAtEnd() {
    if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    else this.updateFollowing();
  }

  scrollToEnd() {
    this.follows = true;
    this.jump.hidden = true;
    this.keepAtEnd();
    byId("message").focus({ preventScroll: true });
  }
}

/** Announce a finished answer to screen readers; a growing text is not announced. */
export function announce(source) {
  const text = markdown(source).textContent;
  byId("spoken").textContent = text.length > SPOKEN_CHARS ? `${text.slice(0, SPOKEN_CHARS)}…` : text;
}
