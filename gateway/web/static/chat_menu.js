// The menu of a chat in the list: rename, export, delete. The gateway reports the change to every open page.

import { patch, remove } from "./api.js";
import { byId } from "./dom.js";

export class ChatMenu {
  constructor({ onProblem }) {
    this.onProblem = onProblem;
    this.chat = null;
    this.menu = byId("chat-menu");
    this.menu.addEventListener("keydown", (event) => this.onKey(event));
    byId("chat-rename").addEventListener("click", () => this.askTitle());
    byId("chat-export").addEventListener("click", () => this.menu.hidePopover());
    byId("chat-delete").addEventListener("click", () => this.askDelete());
    byId("rename-form").addEventListener("submit", (event) => {
      event.preventDefault();
      byId("rename").close();
      this.run(() => patch(this.path, { title: byId("rename-input").value }));
    });
    byId("delete-confirm").addEventListener("click", () => {
      byId("delete").close();
      this.run(() => remove(this.path));
    });
  }

  get path() {
    return `/api/chats/${this.chat.id}`;
  }

  /** Open below the button, or above it where there is no room. */
  open(chat, button) {
    this.chat = chat;
    byId("chat-export").href = `${this.path}/export`;
    this.menu.showPopover();
    const at = button.getBoundingClientRect();
    const { width, height } = this.menu.getBoundingClientRect();
    const top = at.bottom + height + 8 > window.innerHeight ? at.top - height - 4 : at.bottom + 4;
    this.menu.style.setProperty("top", `${top}px`);
    this.menu.style.setProperty("left", `${Math.min(at.left, window.innerWidth - width - 8)}px`);
    this.menu.firstElementChild.focus();
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const items = [...this.menu.children];
    items.at((items.indexOf(document.activeElement) + step) % items.length).focus();
    event.preventDefault();
  }

  askTitle() {
    this.menu.hidePopover();
    byId("rename-input").value = this.chat.title;
    byId("rename").showModal();
    byId("rename-input").select();
  }

  askDelete() {
    this.menu.hidePopover();
    byId("delete-name").textContent = this.chat.title || "New chat";
    byId("delete").showModal();
  }

  async run(request) {
    try {
      await request();
    } catch (problem) {
      this.onProblem(problem);
    }
  }
}
