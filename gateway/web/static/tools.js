// What the agent did: one line per tool call that unfolds into arguments and result.

import { copyButton, el, icon } from "./dom.js";

const FOLDED_FROM = 4; // so many calls, and the list itself folds
const PREVIEW_CHARS = 120;
const SHOWN_CHARS = 20_000; // of a result; a longer one is copied in full

const unfolded = new Set(); // ids, so that an answer that replaces its draft stays as open as it was

export function toolList(tools, group) {
  const list = el("ul", { class: "tools" });
  for (const tool of tools) list.append(el("li", {}, toolView(tool)));
  if (tools.length < FOLDED_FROM) return list;
  const running = tools.findLast((tool) => tool.result === null);
  const words = running ? `${tools.length} steps, now ${running.name}` : `${tools.length} steps`;
  const failed = tools.filter((tool) => tool.error).length;
  const summary = el(
    "summary",
    {},
    stateMark(running ? "running" : "done"),
    el("span", { class: "tool-name" }, words),
    failed > 0 && el("span", { class: "tool-hint" }, `${failed} failed`),
  );
  return remembering(el("details", { class: "tool tool-group" }, summary, list), `group ${group}`);
}

function toolView(tool) {
  const state = tool.result === null ? "running" : tool.error ? "failed" : "done";
  const summary = el(
    "summary",
    {},
    stateMark(state),
    el("span", { class: "tool-name" }, tool.name),
    el("span", { class: "tool-hint" }, preview(tool.arguments)),
    el("span", { class: "unseen" }, `, ${state}`),
  );
  const details = el("details", { class: `tool ${state}` }, summary);
  const fillIn = () => details.childElementCount === 1 && details.append(body(tool));
  details.addEventListener("toggle", () => details.open && fillIn());
  remembering(details, tool.id);
  if (details.open) fillIn();
  return details;
}

function remembering(details, id) {
  details.open = unfolded.has(id);
  details.addEventListener("toggle", () => (details.open ? unfolded.add(id) : unfolded.delete(id)));
  return details;
}

const MARKS = { done: "check", failed: "cross" };

const stateMark = (state) =>
  el("span", { class: `tool-state ${state}`, "aria-hidden": "true" }, MARKS[state] && icon(MARKS[state]));

function body(tool) {
  const result =
    tool.result === null
      ? el("p", { class: "tool-wait" }, "Still running…")
      : section(tool.error ? "Problem" : "Result", tool.result);
  return el("div", { class: "tool-body" }, section("Arguments", tool.arguments || "{}"), result);
}

function section(title, text) {
  const pretty = indented(text);
  const shown =
    pretty.length > SHOWN_CHARS
      ? `${pretty.slice(0, SHOWN_CHARS)}\n… ${pretty.length - SHOWN_CHARS} more characters`
      : pretty;
  const head = el(
    "div",
    { class: "tool-head" },
    el("h4", {}, title),
    copyButton(() => text, `Copy: ${title}`),
  );
  return el("section", {}, head, el("pre", { tabindex: "0" }, shown || "(empty)"));
}

function indented(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}

/** The values alone say most of what a call does. */
function preview(text) {
  let words = text;
  try {
    const value = JSON.parse(text);
    if (value && typeof value === "object")
      words = Object.values(value)
        .map((one) => (typeof one === "string" ? one : JSON.stringify(one)))
        .join(" · ");
  } catch {
    // the arguments are not finished yet, or broken: as they are
  }
  return words.replace(/\s+/g, " ").slice(0, PREVIEW_CHARS);
}
