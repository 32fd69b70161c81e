// The answer that is being written: dots, then thoughts, tools and text as they come, drawn once a frame at most.

import { el, icon } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { toolList } from "./tools.js";

const SHARE_OF_TIME = 8; // drawing may take one part in so many, however long the text

/** As the gateway counts them: a character outside the first plane is one, where `length` says two. */
const charsIn = (text) => [...text].length;

export class Draft {
  constructor({ turn = "", text = "", tools = [] } = {}) {
    this.turn = turn;
    this.text = text;
    this.chars = charsIn(text);
    this.tools = [...tools];
    this.thoughts = "";
    this.over = false;
    this.scheduled = false;
    this.build();
    this.draw();
  }

  build() {
    this.toolsAt = el("div");
    this.prose = el("div", { class: "prose streaming", dir: "auto" });
    this.thinking = el("pre");
    this.thinkingAt = el(
      "details",
      { class: "tool thoughts", hidden: true },
      el("summary", {}, el("span", { class: "tool-state running" }), el("span", { class: "tool-name" }, "Thinking")),
      this.thinking,
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
      this.thinkingAt,
      this.toolsAt,
      this.prose,
      this.dots,
    );
  }

  /** `at`: how many characters come before this piece. What is here already is not added again. */
  addText(text, at = this.chars) {
    const known = this.chars - at;
    const news = known > 0 ? [...text].slice(known).join("") : text;
    this.text += news;
    this.chars += charsIn(news);
    this.schedule();
  }

  addThoughts(text) {
    this.thoughts += text;
    this.schedule();
  }

  startAgain() {
    this.text = this.thoughts = "";
    this.chars = 0;
    this.schedule();
  }

  /** The same id again is news about the same call. */
  setTool(tool) {
    const at = this.tools.findIndex((known) => known.id === tool.id);
    if (at < 0) this.tools.push(tool);
    else this.tools[at] = tool;
    this.toolsChanged = true;
    this.schedule();
  }

  end() {
    this.over = true;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    setTimeout(() => requestAnimationFrame(() => this.draw()), this.rest ?? 0);
  }

  draw() {
    const began = performance.now();
    this.scheduled = false;
    this.view.show(this.text, !this.over);
    this.thinking.textContent = this.thoughts;
    this.thinkingAt.hidden = !this.thoughts;
    if (this.toolsChanged !== false)
      this.toolsAt.replaceChildren(...(this.tools.length ? [toolList(this.tools, this.turn)] : []));
    this.toolsChanged = false;
    const working = this.tools.some((tool) => tool.result === null);
    this.dots.hidden = this.over || Boolean(this.text) || working;
    this.prose.classList.toggle("streaming", !this.over && Boolean(this.text));
    this.rest = (performance.now() - began) * SHARE_OF_TIME;
  }
}
