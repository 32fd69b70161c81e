// The list of chats: by age, with search; a dot for one that is working and a bold title for news.

import { get } from "./api.js";
import { ChatMenu } from "./chat_menu.js";
import { byId, debounce, el, icon } from "./dom.js";
import { briefly, exactly, periodOf } from "./time.js";

const LIMIT = 200;

export class Sidebar {
  constructor({ onProblem, onList }) {
    this.onProblem = onProblem;
    this.onList = onList;
    this.chats = [];
    this.unread = new Set();
    this.current = "";
    this.asked = 0;
    this.list = byId("chats");
    this.search = byId("search");
    this.menu = new ChatMenu({ onProblem });
    this.reload = debounce(() => this.fetch(), 60);
    this.search.addEventListener(
      "input",
      debounce(() => this.fetch(), 220),
    );
    this.search.addEventListener("keydown", (event) => this.onKey(event));
    this.list.addEventListener("keydown", (event) => this.onKey(event));
    setInterval(() => this.show(), 60_000); // "now" does not stay now
  }

  get query() {
    return this.search.value.trim();
  }

  async fetch() {
    const asked = ++this.asked;
    const query = this.query;
    try {
      const { chats } = await get(`/api/chats?query=${encodeURIComponent(query)}&limit=${LIMIT}`);
      if (asked !== this.asked) return; // an answer to an older question
      this.chats = chats;
      this.show(query);
      if (!query) this.onList(chats);
    } catch (problem) {
      this.onProblem(problem);
    }
  }

  open(id) {
    this.current = id;
    this.unread.delete(id);
    this.show();
  }

  mark(id, news) {
    if (news.unread && id !== this.current) this.unread.add(id);
    const chat = this.chats.find((one) => one.id === id);
    if (chat && "running" in news) chat.running = news.running;
    this.show();
  }

  show(query = this.query) {
    const rows = [];
    let period = "";
    for (const chat of this.chats) {
      const its = query ? "Results" : periodOf(chat.updated_ms);
      if (its !== period) rows.push(el("h2", {}, its));
      period = its;
      rows.push(this.row(chat, query));
    }
    if (!rows.length)
      rows.push(el("p", { class: "none" }, query ? "No chats found." : "Your chats will appear here."));
    const focused = this.list.contains(document.activeElement) && document.activeElement.hash;
    this.list.replaceChildren(...rows);
    if (focused) this.list.querySelector(`a[href="${CSS.escape(focused).replaceAll("\\#", "#")}"]`)?.focus();
  }

  row(chat, query) {
    const name = chat.title || "New chat";
    const button = el(
      "button",
      { type: "button", class: "quiet chat-more", "aria-haspopup": "menu", "aria-label": `Options for ${name}` },
      icon("more"),
    );
    button.addEventListener("click", () => this.menu.open(chat, button));
    return el("div", { class: "chat-row" }, this.link(chat, name, query), button);
  }

  link(chat, name, query) {
    const unread = this.unread.has(chat.id);
    return el(
      "a",
      {
        href: `#${chat.id}`,
        class: unread ? "chat unread" : "chat",
        "aria-current": chat.id === this.current ? "page" : undefined,
      },
      el("span", { class: "chat-title", dir: "auto" }, ...marked(name, query)),
      chat.running
        ? el("span", { class: "working", title: "Working" }, el("span", { class: "unseen" }, ", working"))
        : el(
            "time",
            { datetime: new Date(chat.updated_ms).toISOString(), title: exactly(chat.updated_ms) },
            briefly(chat.updated_ms),
          ),
      unread && el("span", { class: "unseen" }, ", new answer"),
      chat.excerpt && el("span", { class: "excerpt", dir: "auto" }, ...marked(chat.excerpt, query)),
    );
  }

  /** Arrows walk through search box and chats; Escape leaves the search. */
  onKey(event) {
    if (event.key === "Escape" && this.search.value) {
      this.search.value = "";
      this.fetch();
      event.stopPropagation();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const stops = [this.search, ...this.list.querySelectorAll("a")];
      const to = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      stops[Math.max(0, Math.min(stops.length - 1, to))].focus();
      event.preventDefault();
    } else if (event.key === "Enter" && event.target === this.search) {
      this.list.querySelector("a")?.click();
    }
  }
}

/** The text with the words that were searched for marked. */
function marked(text, query) {
  const words = query.split(/\s+/).filter((word) => word.length > 1);
  if (!words.length) return [text];
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
  return text.split(pattern).map((part, index) => (index % 2 ? el("mark", {}, part) : part));
}
