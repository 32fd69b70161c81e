// The answer being written: dots first, then reasoning, tool calls and text, drawn once a frame at most.

import { el, icon } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { toolList } from "./tools.js";

const PAUSE_FACTOR = 8; // pause this many times as long as drawing took, so that long texts do not block the page

/** Count characters as the gateway does: an emoji is one, where `length` says two. */
const countChars = (text) => [...text].length;

export class Draft {
  constructor({ turn = "", text = "", tools = [] } = {}) {
    this.turn = turn;
    this.text = text;
    this.chars = countChars(text);
    this.tools = [...tools];
    this.thoughts = "";
    this.ended = false;
    this.scheduled = false;
    this.toolsChanged = true;
    this.pause_ms = 0;
    this.build();
    this.draw();
  }

  build() {
    this.toolsBox = el("div");
    this.prose = el("div", { class: "prose streaming", dir: "auto" });
    this.thoughtsText = el("pre");
    this.thoughtsBox = el(
      "details",
      { class: "tool thoughts", hidden: true },
      el("summary", {}, el("span", { class: "tool-state running" }), el("span", { class: "tool-name" }, "Thinking")),
      this.thoughtsText,
    );
    this.dots = el(
      "div",
      { class: "dots" },
      el("i"),
      el("i"),
      el("i"),
      el("span", { class: "unseen" }, "Hermes is writing"),
    );
    this.view = new MarkdownView(this.prose);
    this.element = el(
      "li",
      { class: "entry answer draft" },
      el("span", { class: "mark" }, icon("wing")),
      el("h3", { class: "unseen" }, "Hermes is answering"),
      this.thoughtsBox,
      this.toolsBox,
      this.prose,
      this.dots,
    );
  }

  /** Add a piece of text that begins after `at` characters, without the part that is already here. */
  addText(text, at = this.chars) {
    const known = this.chars - at;
    const added = known > 0 ? [...text].slice(known).join("") : text;
    this.text += added;
    this.chars += countChars(added);
    this.schedule();
  }

  addThoughts(text) {
    this.thoughts += text;
    this.schedule();
  }

  restart() {
    this.text = this.thoughts = "";
    this.chars = 0;
    this.schedule();
  }

  /** Add a tool call, or update the one with the same id. */
  setTool(tool) {
    const at = this.tools.findIndex((known) => known.id === tool.id);
    if (at < 0) this.tools.push(tool);
    else this.tools[at] = tool;
    this.toolsChanged = true;
    this.schedule();
  }

  end() {
    this.ended = true;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    setTimeout(() => requestAnimationFrame(() => this.draw()), this.pause_ms);
  }

  draw() {
    const began = performance.now();
    this.scheduled = false;
    this.view.show(this.text, !this.ended);
    this.thoughtsText.textContent = this.thoughts;
    this.thoughtsBox.hidden = !this.thoughts;
    if (this.toolsChanged)
      this.toolsBox.replaceChildren(...(this.tools.length ? [toolList(this.tools, this.turn)] : []));
    this.toolsChanged = false;
    const isWorking = this.tools.some((tool) => tool.result === null);
    this.dots.hidden = this.ended || Boolean(this.text) || isWorking;
    this.prose.classList.toggle("streaming", !this.ended && Boolean(this.text));
    this.pause_ms = (performance.now() - began) * PAUSE_FACTOR;
  }
}
