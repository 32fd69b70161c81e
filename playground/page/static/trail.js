// The trail of each message: one chain of steps a line, the newest on top, with the time each step took.

import { byId, el } from "./dom.js";

const WRONG = new Set(["refused", "failed", "expired", "in_doubt", "postponed", "revoked", "approval failed"]);
const ENDS = new Set([...WRONG, "sent", "noted", "deleted", "pairing approved", "stopped"]);
const DECIDED = {
  approval_approved: "allowed",
  approval_denied: "denied",
  approval_expired: "nobody answered",
  approval_withdrawn: "no longer needed",
};
const HIDDEN = new Set(["opened"]);

export class Trails {
  constructor() {
    this.shown = new Map();
  }

  show(trails) {
    const drawn = new Map();
    for (const trail of trails) {
      const from = JSON.stringify(trail);
      const known = this.shown.get(trail.key);
      drawn.set(trail.key, known?.[0] === from ? known : [from, trailElement(trail)]);
    }
    this.shown = drawn;
    byId("trails").replaceChildren(...[...drawn.values()].map(([, element]) => element));
    const nothing = () => el("li", { class: "nothing" }, "Nothing was said yet. Say hello on one of the phones.");
    if (!trails.length) byId("trails").append(nothing());
  }
}

function trailElement(trail) {
  const steps = told(trail.steps);
  const first = trail.steps[0].at_ms;
  const last = trail.steps.at(-1);
  const isOpen = !(ENDS.has(last.event) || last.detail.is_last) || isQuestion(last);
  const chips = steps.map((step, index) => {
    const since = index ? step.at_ms - steps[index - 1].at_ms : 0;
    const kind = WRONG.has(step.event) ? "wrong" : step.kind;
    return el(
      "li",
      { class: `step ${kind}`, title: step.title },
      index > 0 && el("span", { class: "took" }, took(since)),
      el("span", { class: "chip" }, step.label),
    );
  });
  return el(
    "li",
    { class: isOpen ? `trail-line open ${trail.account}` : `trail-line ${trail.account}` },
    el(
      "div",
      { class: "trail-head" },
      el("span", { class: "badge" }, trail.account),
      el("b", {}, trail.who),
      el("q", { dir: "auto" }, trail.text),
      el("span", { class: "total" }, isOpen ? "…" : took(last.at_ms - first)),
    ),
    el("ol", { class: "steps" }, chips),
  );
}

/** Steps as they are told: a tool's start and end are one, and so are a send and its receipt. */
function told(steps) {
  const found = [];
  const begun = new Set(steps.filter((step) => step.event === "tool_started").map((step) => step.detail.call));
  for (const step of steps) {
    const before = found.at(-1);
    if (HIDDEN.has(step.event)) continue;
    if (step.event === "tool_finished" && before?.event === "tool_started") found.pop();
    if (["sent", "piece_sent"].includes(step.event) && before?.event === "sending") found.pop();
    const at = new Date(step.at_ms).toISOString().slice(11, 23);
    const wasRun = step.event !== "tool_finished" || begun.has(step.detail.call);
    found.push({ ...step, ...wording(step, wasRun), title: `${step.event} ${at} ${JSON.stringify(step.detail)}` });
  }
  return found;
}

/** An approval request was sent to the chat; it is not the answer. */
const isQuestion = ({ event, detail }) => event === "sent" && detail.about === "approval";

function wording({ event, detail }, wasRun) {
  if (event === "sent" && isQuestion({ event, detail })) return { label: "asked ✓", kind: "" };
  if (event === "approval_asked") return { label: `${detail.tool} waits for approval`, kind: "tool" };
  if (event.startsWith("approval_")) return { label: DECIDED[event] ?? event.replaceAll("_", " "), kind: "tool" };
  if (!wasRun) return { label: `${detail.tool} not run`, kind: "tool" };
  if (event === "model_replied") return { label: "model", kind: "model" };
  if (event === "tool_started") return { label: `${detail.tool}…`, kind: "tool" };
  if (event === "tool_finished") return { label: detail.error ? `${detail.tool} failed` : detail.tool, kind: "tool" };
  if (event === "sending" && detail.attempt > 1) return { label: `try ${detail.attempt}`, kind: "" };
  if (event === "refused") return { label: `refused: ${detail.reason}`, kind: "wrong" };
  if (event === "resumed") return { label: `resumed after ${detail.after}`, kind: "resumed" };
  if (event === "answered") return { label: "answered", kind: "model" };
  if (event === "sent") return { label: "sent ✓", kind: "good" };
  return { label: event.replaceAll("_", " "), kind: "" };
}

function took(ms) {
  if (ms < 1000) return `${ms} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;
}
