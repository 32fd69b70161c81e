// The menu of commands above the message box: opens with "/", filters while typing, and completes the name.

import { byId, el } from "./dom.js";

export class CommandMenu {
  /** `onPick` is called when the text in the box was completed. */
  constructor(box, onPick) {
    this.box = box;
    this.onPick = onPick;
    this.commands = [];
    this.matches = [];
    this.selected = 0;
    this.list = byId("commands");
    box.addEventListener("blur", () => this.close());
  }

  update() {
    const typed = /^\/([a-z_-]*)$/i.exec(this.box.value)?.[1].toLowerCase();
    const matches = ({ name, aliases }) => [name, ...aliases].some((word) => word.startsWith(typed));
    const isComplete = this.commands.some(({ name, aliases }) => name === typed || aliases.includes(typed));
    this.matches = typed === undefined ? [] : this.commands.filter(matches);
    // Nothing is left to complete: Enter sends it.
    if (isComplete && this.matches.length === 1) this.matches = [];
    this.selected = 0;
    this.show();
  }

  close() {
    this.matches = [];
    this.show();
  }

  /** Return true if the menu used the key. */
  handleKey({ key, shiftKey }) {
    const count = this.matches.length;
    if (!count) return false;
    if (key === "ArrowDown") this.select(this.selected + 1);
    else if (key === "ArrowUp") this.select(this.selected - 1 + count);
    else if (key === "Escape") this.close();
    else if (key === "Tab" || (key === "Enter" && !shiftKey && !this.isTyped(this.matches[this.selected])))
      this.pick(this.matches[this.selected]);
    else return false;
    return true;
  }

  isTyped({ name, aliases }) {
    return [name, ...aliases].some((word) => `/${word}` === this.box.value.toLowerCase());
  }

  select(index) {
    this.selected = index % this.matches.length;
    this.show();
  }

  pick(command) {
    this.box.value = `/${command.name}${command.hint ? " " : ""}`;
    this.box.focus();
    this.close();
    this.onPick();
  }

  show() {
    const isOpen = this.matches.length > 0;
    this.list.hidden = !isOpen;
    this.list.replaceChildren(...this.matches.map((command, index) => this.optionView(command, index)));
    this.box.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.box.setAttribute("aria-activedescendant", `command-${this.selected}`);
    else this.box.removeAttribute("aria-activedescendant");
    this.list.children[this.selected]?.scrollIntoView({ block: "nearest" });
  }

  optionView(command, index) {
    return el(
      "li",
      {
        id: `command-${index}`,
        role: "option",
        "aria-selected": String(index === this.selected),
        // Not onclick: by then the box has lost the focus and the menu is closed.
        onmousedown: (event) => (event.preventDefault(), this.pick(command)),
      },
      el("b", {}, `/${command.name}`),
      command.hint && el("i", {}, command.hint),
      el("span", {}, command.description),
    );
  }
}
