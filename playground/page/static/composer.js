// Where one writes: text, slash commands, mentions, files, a voice note; also what is being edited or replied to.

import { el, icon, iconButton, toast } from "./dom.js";
import { sampleDocument, samplePicture, sampleVoice } from "./samples.js";

const TALLEST_PX = 96;

export class Composer {
  constructor({ app, onSay, onEdit, onFile }) {
    Object.assign(this, { onSay, onEdit, onFile });
    this.about = null; // { kind: "reply" | "edit", message }
    this.commands = [];
    this.handle = "";
    this.banner = el("div", { class: "banner", hidden: true });
    this.menu = el("ul", { class: "slash", role: "listbox", "aria-label": "Commands", hidden: true });
    this.text = el("textarea", { rows: 1, "aria-label": `Message on ${app}`, enterkeyhint: "send" });
    this.plus = iconButton("plus", "Send a file, picture or voice note", { class: "plus", "aria-haspopup": "menu" });
    const mention = "Mention the bot";
    this.at = el("button", { type: "button", class: "at", "aria-label": mention, title: mention }, "@");
    this.send = el("button", { type: "submit", class: "send", "aria-label": "Send" }, icon("send"));
    this.picker = el("input", { type: "file", multiple: true, hidden: true, "aria-label": `Files for ${app}` });
    this.attach = this.attachMenu();
    this.form = el("form", { class: "write" }, this.plus, this.text, this.at, this.send, this.picker);
    this.element = el("div", { class: "composer" }, this.menu, this.attach, this.banner, this.form);
    this.form.classList.add("empty");
    this.listen();
  }

  listen() {
    this.form.addEventListener("submit", (event) => (event.preventDefault(), this.submit()));
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.text.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length) event.preventDefault();
      files.forEach((file) => this.file(file));
    });
    this.at.addEventListener("click", () => this.insert(`@${this.handle} `));
    this.plus.addEventListener("click", () => this.toggleAttach());
    this.picker.addEventListener("change", () => {
      [...this.picker.files].forEach((file) => this.file(file));
      this.picker.value = "";
    });
  }

  attachMenu() {
    const entry = (label, run) =>
      el("button", { type: "button", role: "menuitem", onclick: () => (this.toggleAttach(false), run()) }, label);
    const menu = el(
      "div",
      { class: "menu attach", role: "menu", hidden: true },
      entry("From this machine…", () => this.picker.click()),
      entry("A sample picture", async () => this.file(await samplePicture())),
      entry("A sample document", async () => this.file(sampleDocument())),
      entry("A voice note", async () => this.onFile(await sampleVoice(), { voice: "1" })),
    );
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.toggleAttach(false);
      this.plus.focus();
    });
    return menu;
  }

  toggleAttach(open = this.attach.hidden) {
    this.attach.hidden = !open;
    this.plus.setAttribute("aria-expanded", String(open));
    if (open) this.attach.querySelector("button").focus();
  }

  file(file) {
    const caption = this.text.value.trim();
    this.text.value = "";
    this.changed();
    this.onFile(file, caption ? { caption } : {});
  }

  show({ commands, handle, hint, canMention }) {
    this.commands = commands;
    this.handle = handle;
    this.text.placeholder = hint;
    this.at.hidden = !canMention;
  }

  insert(words) {
    this.text.setRangeText(words, this.text.selectionStart, this.text.selectionEnd, "end");
    this.text.focus();
    this.changed();
  }

  begin(kind, message) {
    this.about = { kind, message };
    const said = message.words.map((words) => words.text).join("\n");
    const label = kind === "edit" ? "Edit message" : `Reply to ${message.author}`;
    const cancel = iconButton("close", "Cancel", { class: "quiet", onclick: () => this.end() });
    this.banner.replaceChildren(el("span", {}, el("b", {}, label), el("small", {}, said.slice(0, 80))), cancel);
    this.banner.hidden = false;
    if (kind === "edit") this.text.value = said;
    this.text.focus();
    this.changed();
  }

  end() {
    if (this.about?.kind === "edit") this.text.value = "";
    this.about = null;
    this.banner.hidden = true;
    this.changed();
  }

  submit() {
    const text = this.text.value.trim();
    if (!text) return toast("Write something first.");
    const about = this.about;
    this.text.value = "";
    this.end();
    if (about?.kind === "edit") this.onEdit(about.message, text);
    else this.onSay(text, about?.message.id ?? "");
  }

  changed() {
    this.text.style.setProperty("height", "auto");
    this.text.style.setProperty("height", `${Math.min(TALLEST_PX, this.text.scrollHeight)}px`);
    this.form.classList.toggle("empty", !this.text.value.trim());
    const typed = /^\/(\w*)$/.exec(this.text.value);
    const fitting = typed ? this.commands.filter((one) => one.name.startsWith(typed[1].toLowerCase())) : [];
    this.menu.hidden = !fitting.length;
    this.menu.replaceChildren(...fitting.map((one, index) => this.option(one, index === 0)));
  }

  option(command, selected) {
    const item = el(
      "li",
      { role: "option", "aria-selected": String(selected) },
      el("b", {}, `/${command.name}`),
      el("span", {}, command.description),
    );
    item.addEventListener("mousedown", (event) => (event.preventDefault(), this.pick(command.name)));
    item.dataset.name = command.name;
    return item;
  }

  pick(name) {
    this.text.value = `/${name} `;
    this.text.focus();
    this.changed();
  }

  key(event) {
    if (event.isComposing) return;
    if (!this.menu.hidden && this.menuKey(event)) return event.preventDefault();
    if (event.key === "Escape") this.end();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.submit();
  }

  menuKey(event) {
    const options = [...this.menu.children];
    const at = options.findIndex((one) => one.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = (at + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length;
      options.forEach((one, index) => one.setAttribute("aria-selected", String(index === next)));
      options[next].scrollIntoView({ block: "nearest" });
      return true;
    }
    const name = options[at].dataset.name;
    if (event.key === "Tab" || (event.key === "Enter" && this.text.value !== `/${name}`)) return this.pick(name), true;
    if (event.key === "Escape") return (this.menu.hidden = true);
    return false;
  }
}
