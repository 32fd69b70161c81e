// The menu of commands above the message box: opens with "/", filters while one types, and completes the name.

import { byId, el } from "./dom.js";

export class CommandMenu {
  /** `onPick`: the text in the box was completed. */
  constructor(box, onPick) {
    this.box = box;
    this.onPick = onPick;
    this.commands = [];
    this.fitting = [];
    this.selected = 0;
    this.list = byId("commands");
    box.addEventListener("blur", () => this.close());
  }

  update() {
    const typed = /^\/([a-z_-]*)$/i.exec(this.box.value)?.[1].toLowerCase();
    const fits = ({ name, aliases }) => [name, ...aliases].some((one) => one.startsWith(typed));
    const isWhole = this.commands.some((one) => one.name === typed || one.aliases.includes(typed));
    this.fitting = typed === undefined ? [] : this.commands.filter(fits);
    // Nothing is left to complete: Enter sends it.
    if (isWhole && this.fitting.length === 1) this.fitting = [];
    this.selected = 0;
    this.show();
  }

  close() {
    this.fitting = [];
    this.show();
  }

  /** True when the key was meant for the menu. */
  takeKey({ key, shiftKey }) {
    const count = this.fitting.length;
    if (!count) return false;
    if (key === "ArrowDown") this.select(this.selected + 1);
    else if (key === "ArrowUp") this.select(this.selected - 1 + count);
    else if (key === "Escape") this.close();
    else if (key === "Tab" || (key === "Enter" && !shiftKey && !this.isTyped(this.fitting[this.selected])))
      this.pick(this.fitting[this.selected]);
    else return false;
    return true;
  }

  isTyped({ name, aliases }) {
    return [name, ...aliases].some((one) => `/${one}` === this.box.value.toLowerCase());
  }

  select(index) {
    this.selected = index % this.fitting.length;
    this.show();
  }

  pick(command) {
    this.box.value = `/${command.name}${command.hint ? " " : ""}`;
    this.box.focus();
    this.close();
    this.onPick();
  }

  show() {
    const isOpen = this.fitting.length > 0;
    this.list.hidden = !isOpen;
    this.list.replaceChildren(...this.fitting.map((command, index) => this.option(command, index)));
    this.box.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.box.setAttribute("aria-activedescendant", `command-${this.selected}`);
    else this.box.removeAttribute("aria-activedescendant");
    this.list.children[this.selected]?.scrollIntoView({ block: "nearest" });
  }

  option(command, index) {
    return el(
      "li",
      {
        id: `command-${index}`,
        role: "option",
        "aria-selected": String(index === this.selected),
        // Not on click: the box would have lost the focus, and the menu be closed, by then.
        onmousedown: (event) => (event.preventDefault(), this.pick(command)),
      },
      el("b", {}, `/${command.name}`),
      command.hint && el("i", {}, command.hint),
      el("span", {}, command.description),
    );
  }
}
