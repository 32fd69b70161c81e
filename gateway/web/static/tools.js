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
  const result = tool.result === null ? el("p", { class: "tool-wait" }, "Still running…") : resultView(tool);
  return el("div", { class: "tool-body" }, section("Arguments", indented(tool.arguments || "{}")), result);
}

/** What a command printed is shown as it was printed, with its exit code and notes below; all else as JSON. */
function resultView(tool) {
  const { output, ...rest } = parsed(tool.result) ?? {};
  if (typeof output !== "string") return section(tool.error ? "Error" : "Result", indented(tool.result));
  const facts = Object.entries(rest).filter(([, value]) => value !== null && value !== "");
  const view = section("Output", output, facts.map(factView));
  view.classList.add("tool-output");
  return view;
}

const factView = ([name, value]) =>
  el("p", {}, `${labelOf(name)}: ${typeof value === "object" ? JSON.stringify(value) : value}`);

const labelOf = (name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

function section(title, text, notes = []) {
  const shown =
    text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}\n… ${text.length - SHOWN_CHARS} more characters` : text;
  const head = el(
    "div",
    { class: "tool-head" },
    el("h4", {}, title),
    copyButton(() => text, `Copy: ${title}`),
  );
  return el("section", {}, head, el("pre", { tabindex: "0" }, shown || "(empty)"), ...notes);
}

/** The object that a text is the JSON of, or null. */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function indented(text) {
  const value = parsed(text);
  return value ? JSON.stringify(value, null, 2) : text;
}

/** The values alone say most of what a call does. */
function preview(text) {
  const value = parsed(text); // null while the arguments are still being written
  const words = value
    ? Object.values(value)
        .map((one) => (typeof one === "string" ? one : JSON.stringify(one)))
        .join(" · ")
    : text;
  return words.replace(/\s+/g, " ").slice(0, PREVIEW_CHARS);
}
