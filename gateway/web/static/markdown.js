// Renders Markdown that may still be growing: only the last blocks are drawn again when text is added.

import { parse } from "./blocks.js";
import { copyButton, el, fill } from "./dom.js";
import { inline } from "./inline.js";

// A line can still join the block before the last (a "2" becomes the next item of a list), never an earlier one.
const UNSETTLED = 2;

export class MarkdownView {
  constructor(element) {
    this.element = element;
    this.text = "";
    this.tail = []; // the unsettled blocks: { block, source, open, at, node }
  }

  /** Show the whole text. `open`: more is to come. */
  show(text, open = false) {
    const clean = text.replaceAll("\r\n", "\n");
    if (!clean.startsWith(this.text)) this.clear();
    this.text = clean;
    const entries = entriesFrom(clean, this.tail[0]?.at ?? 0, open);
    let reused = 0;
    while (reused < this.tail.length && reused < entries.length && reuse(this.tail[reused], entries[reused])) reused++;
    for (const entry of this.tail.slice(reused)) entry.node.remove();
    for (const entry of entries.slice(reused)) {
      entry.node = draw(entry.block, entry.open);
      this.element.append(entry.node);
    }
    this.tail = entries.slice(-UNSETTLED);
  }

  clear() {
    this.element.replaceChildren();
    this.tail = [];
  }
}

function entriesFrom(text, start, open) {
  const lines = text.slice(start).split("\n");
  const blocks = parse(lines);
  const entries = [];
  let line = 0;
  let at = start;
  for (const block of blocks) {
    while (line < block.from) at += lines[line++].length + 1;
    const source = lines.slice(block.from, block.next).join("\n");
    entries.push({ block, source, at, open: open && block === blocks.at(-1), node: null });
  }
  return entries;
}

/** Keep the node if nothing changed or code only got longer, and with it selection, focus and scroll position. */
function reuse(before, now) {
  const same = before.source === now.source && before.open === now.open;
  const grew =
    before.block.kind === "code" &&
    now.block.kind === "code" &&
    before.block.language === now.block.language &&
    now.block.text.startsWith(before.block.text);
  if (!same && !grew) return false;
  if (!same) before.node.querySelector("code").firstChild.appendData(now.block.text.slice(before.block.text.length));
  now.node = before.node;
  return true;
}

/** Build an element with finished Markdown. */
export function markdown(text, dir) {
  const element = el("div", { class: "prose", dir });
  new MarkdownView(element).show(text);
  return element;
}

const RENDERERS = {
  paragraph: (block, open) => fill(el("p"), inline(block.text, open)),
  // One level lower than written: the page's own title is the h1.
  heading: (block, open) =>
    fill(el(`h${Math.min(6, block.level + 1)}`, { class: `h${block.level}` }), inline(block.text, open)),
  rule: () => el("hr"),
  quote: (block, open) => fill(el("blockquote"), drawAll(block.blocks, open)),
  code: codeBlock,
  list: listBlock,
  table: tableBlock,
};

const draw = (block, open) => RENDERERS[block.kind](block, open);

const drawAll = (blocks, open) => blocks.map((block, index) => draw(block, open && index === blocks.length - 1));

function codeBlock({ language, text }) {
  const code = el("code", {}, text);
  const label = el("span", { class: "language" }, language || "text");
  const head = el(
    "figcaption",
    {},
    label,
    copyButton(() => code.textContent, "Copy this code"),
  );
  return el(
    "figure",
    { class: "code" },
    head,
    el("pre", { tabindex: "0", "aria-label": `Code, ${language || "text"}` }, code),
  );
}

function listBlock({ ordered, start, items, loose }, open) {
  const list = ordered ? el("ol", { start: start === 1 ? undefined : String(start) }) : el("ul");
  items.forEach((item, index) => {
    const children = drawAll(item.blocks, open && index === items.length - 1);
    const line = el("li", { class: item.task ? "task" : undefined });
    if (item.task)
      line.append(
        el("input", { type: "checkbox", disabled: true, checked: item.task === "done", "aria-label": item.task }),
      );
    for (const child of children) {
      if (!loose && child.tagName === "P") fill(line, [...child.childNodes]);
      else line.append(child);
    }
    list.append(line);
  });
  return list;
}

function tableBlock({ head, aligns, rows }, open) {
  const cell = (tag, text, column, last) =>
    fill(el(tag, { class: aligns[column] || undefined, scope: tag === "th" ? "col" : undefined }), inline(text, last));
  const row = (tag, texts, last) =>
    fill(
      el("tr"),
      head.map((_, column) => cell(tag, texts[column] ?? "", column, last && column === texts.length - 1)),
    );
  const body = rows.map((texts, index) => row("td", texts, open && index === rows.length - 1));
  const table = el("table", {}, el("thead", {}, row("th", head, false)), fill(el("tbody"), body));
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}
