// Shows tool calls: one line per call that expands into arguments and result.

import { copyButton, el, icon } from "./dom.js";

const GROUPED_FROM = 4; // calls; a longer list is collapsed as a whole
const PREVIEW_CHARS = 120;
const SHOWN_CHARS = 20_000; // of a result; the copy button copies all of it

const expanded = new Set(); // ids, so that an answer that replaces its draft stays as expanded as it was

export function toolList(tools, group) {
  const list = el("ul", { class: "tools" });
  for (const tool of tools) list.append(el("li", {}, toolView(tool)));
  if (tools.length < GROUPED_FROM) return list;
  const running = tools.findLast((tool) => tool.result === null);
  const label = running ? `${tools.length} steps, now ${running.name}` : `${tools.length} steps`;
  const failed = tools.filter((tool) => tool.error).length;
  const summary = el(
    "summary",
    {},
    stateIcon(running ? "running" : "done"),
    el("span", { class: "tool-name" }, label),
    failed > 0 && el("span", { class: "tool-hint" }, `${failed} failed`),
  );
  return rememberExpanded(el("details", { class: "tool tool-group" }, summary, list), `group ${group}`);
}

function toolView(tool) {
  const state = tool.result === null ? "running" : tool.error ? "failed" : "done";
  const summary = el(
    "summary",
    {},
    stateIcon(state),
    el("span", { class: "tool-name" }, tool.name),
    el("span", { class: "tool-hint" }, preview(tool.arguments)),
    el("span", { class: "unseen" }, `, ${state}`),
  );
  const details = el("details", { class: `tool ${state}` }, summary);
  const fillIn = () => details.childElementCount === 1 && details.append(bodyView(tool));
  details.addEventListener("toggle", () => details.open && fillIn());
  rememberExpanded(details, tool.id);
  if (details.open) fillIn();
  return details;
}

function rememberExpanded(details, id) {
  details.open = expanded.has(id);
  details.addEventListener("toggle", () => (details.open ? expanded.add(id) : expanded.delete(id)));
  return details;
}

const STATE_ICONS = { done: "check", failed: "close" };

const stateIcon = (state) =>
  el("span", { class: `tool-state ${state}`, "aria-hidden": "true" }, STATE_ICONS[state] && icon(STATE_ICONS[state]));

function bodyView(tool) {
  const result = tool.result === null ? el("p", { class: "tool-wait" }, "Still running…") : resultView(tool);
  return el("div", { class: "tool-body" }, sectionView("Arguments", formatJson(tool.arguments || "{}")), result);
}

/** Show the output of a command as it was printed, with exit code and notes below; any other result as JSON. */
function resultView(tool) {
  const { output, ...rest } = parseObject(tool.result) ?? {};
  if (typeof output !== "string") return sectionView(tool.error ? "Error" : "Result", formatJson(tool.result));
  const facts = Object.entries(rest).filter(([, value]) => value !== null && value !== "");
  const view = sectionView("Output", output, facts.map(factView));
  view.classList.add("tool-output");
  return view;
}

const factView = ([name, value]) =>
  el("p", {}, `${labelOf(name)}: ${typeof value === "object" ? JSON.stringify(value) : value}`);

const labelOf = (name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

function sectionView(title, text, notes = []) {
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

/** Return the object or list in a JSON text, or null. */
function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function formatJson(text) {
  const value = parseObject(text);
  return value ? JSON.stringify(value, null, 2) : text;
}

/** Return the values of the arguments in one line: they say most of what a call does. */
function preview(text) {
  const value = parseObject(text); // null while the arguments are still being written
  const summary = value
    ? Object.values(value)
        .map((argument) => (typeof argument === "string" ? argument : JSON.stringify(argument)))
        .join(" · ")
    : text;
  return summary.replace(/\s+/g, " ").slice(0, PREVIEW_CHARS);
}
