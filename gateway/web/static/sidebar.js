// The list of chats, newest first, with search. Marks chats that are working or have unread answers.

import { get } from "./api.js";
import { ChatMenu } from "./chat_menu.js";
import { byId, debounce, el, icon } from "./dom.js";
import { periodOf, shortTime, timeView } from "./time.js";

const LIMIT = 200;

export class Sidebar {
  constructor({ onProblem, onFetched }) {
    this.onProblem = onProblem;
    this.onFetched = onFetched;
    this.chats = [];
    this.unread = new Set();
    this.current = "";
    this.fetches = 0;
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
    setInterval(() => this.show(), 60_000); // times such as "now" change
  }

  get query() {
    return this.search.value.trim();
  }

  async fetch() {
    const number = ++this.fetches;
    const query = this.query;
    try {
      const { chats } = await get(`/api/chats?query=${encodeURIComponent(query)}&limit=${LIMIT}`);
      if (number !== this.fetches) return; // only the newest response counts
      this.chats = chats;
      this.show(query);
      if (!query) this.onFetched();
    } catch (problem) {
      this.onProblem(problem);
    }
  }

  open(id) {
    this.current = id;
    this.unread.delete(id);
    this.show();
  }

  mark(id, { unread, running }) {
    if (unread && id !== this.current) this.unread.add(id);
    const chat = this.chats.find((chat) => chat.id === id);
    if (chat && running !== undefined) chat.running = running;
    this.show();
  }

  show(query = this.query) {
    const rows = [];
    let period = "";
    for (const chat of this.chats) {
      const heading = query ? "Results" : periodOf(chat.updated_ms);
      if (heading !== period) rows.push(el("h2", {}, heading));
      period = heading;
      rows.push(this.rowView(chat, query));
    }
    if (!rows.length)
      rows.push(el("p", { class: "none" }, query ? "No chats found." : "Your chats will appear here."));
    const focused = this.list.contains(document.activeElement) && document.activeElement.hash;
    this.list.replaceChildren(...rows);
    if (focused) this.list.querySelector(`a[href="${CSS.escape(focused).replaceAll("\\#", "#")}"]`)?.focus();
  }

  rowView(chat, query) {
    const name = chat.title || "New chat";
    const button = el(
      "button",
      { type: "button", class: "quiet chat-more", "aria-haspopup": "menu", "aria-label": `Options for ${name}` },
      icon("more"),
    );
    button.addEventListener("click", () => this.menu.open(chat, button));
    return el("div", { class: "chat-row" }, this.linkView(chat, name, query), button);
  }

  linkView(chat, name, query) {
    const unread = this.unread.has(chat.id);
    return el(
      "a",
      {
        href: `#${chat.id}`,
        class: unread ? "chat unread" : "chat",
        "aria-current": chat.id === this.current ? "page" : undefined,
      },
      el("span", { class: "chat-title", dir: "auto" }, ...highlight(name, query)),
      chat.running
        ? el("span", { class: "working", title: "Working" }, el("span", { class: "unseen" }, ", working"))
        : timeView(chat.updated_ms, shortTime(chat.updated_ms)),
      unread && el("span", { class: "unseen" }, ", new answer"),
      chat.excerpt && el("span", { class: "excerpt", dir: "auto" }, ...highlight(chat.excerpt, query)),
    );
  }

  /** Arrow keys move between the search box and the chats; Escape clears the search. */
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

/** Return the text with the words of the query marked. */
function highlight(text, query) {
  const words = query.split(/\s+/).filter((word) => word.length > 1);
  if (!words.length) return [text];
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
  return text.split(pattern).map((part, index) => (index % 2 ? el("mark", {}, part) : part));
}
