// One entry of a conversation as an element: what was said, by whom, when, and how it stands.

import { copyButton, el, icon } from "./dom.js";
import { fileView } from "./files.js";
import { markdown } from "./markdown.js";
import { buttonsView } from "./questions.js";
import { exactly, timeOfDay } from "./time.js";
import { toolList } from "./tools.js";

/** `press`: a button below it was pressed; `tryAgain`: what a failed turn was about is to be sent again. */
export function itemView(item, { press, tryAgain }) {
  if (item.kind === "user") return userView(item);
  const buttons = item.choices?.length > 0 && buttonsView(item.choices, press);
  return item.kind === "notice" ? noticeView(item, buttons) : answerView(item, buttons, tryAgain);
}

const isCommand = (item) => /^\/[a-z]/i.test(item.text) && !item.text.includes("\n");

function userView(item) {
  const body = el("div", { class: "bubble", dir: "auto" }, item.text);
  return el(
    "li",
    { class: isCommand(item) ? "entry user command" : "entry user" },
    el("h3", { class: "unseen" }, "You"),
    filesView(item.files),
    item.text && body,
    el("div", { class: "meta" }, item.state === "waiting" && el("span", {}, "Queued · "), timeView(item.at_ms)),
  );
}

/** A message that is still only here. */
export function unsentView(message, { again, discard }) {
  const status = message.refused
    ? [
        el("span", { class: "problem" }, message.problem || "Not accepted."),
        button("retry", "Try again", again),
        button("close", "Take back and edit", discard),
      ]
    : [
        el("span", { class: "spinner", "aria-hidden": "true" }),
        el("span", {}, message.problem ? `Waiting: ${message.problem}` : "Waiting to be sent"),
      ];
  const files = message.files.map((file) => ({ ...file, url: "", problem: "" }));
  return el(
    "li",
    { class: message.refused ? "entry user unsent refused" : "entry user unsent" },
    el("h3", { class: "unseen" }, "You, not sent yet"),
    filesView(files),
    message.text && el("div", { class: "bubble", dir: "auto" }, message.text),
    el("div", { class: "meta", role: "status" }, ...status),
  );
}

const button = (shape, words, onclick) => el("button", { type: "button", class: "small", onclick }, icon(shape), words);

function tryAgainButton(tryAgain) {
  const onclick = (event) => {
    event.currentTarget.disabled = true;
    tryAgain();
  };
  return el("button", { type: "button", class: "plain try-again", onclick }, icon("retry"), "Try again");
}

function answerView(item, buttons, tryAgain) {
  return el(
    "li",
    { class: item.failed ? "entry answer failed" : "entry answer" },
    el("span", { class: "mark" }, icon("wing")),
    el("h3", { class: "unseen" }, "Hermes"),
    item.tools?.length > 0 && toolList(item.tools, item.key),
    withAttributes(markdown(item.text), { dir: "auto" }),
    filesView(item.files),
    buttons,
    item.canTryAgain && tryAgainButton(tryAgain),
    el(
      "div",
      { class: "meta" },
      timeView(item.at_ms),
      copyButton(() => item.text, "Copy this answer"),
    ),
  );
}

function noticeView(item, buttons) {
  return el(
    "li",
    { class: buttons ? "entry notice asking" : "entry notice" },
    el("h3", { class: "unseen" }, buttons ? "Question" : "Notice"),
    markdown(item.text),
    buttons,
    el("div", { class: "meta" }, timeView(item.at_ms)),
  );
}

function withAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function filesView(files) {
  if (!files?.length) return null;
  return el("div", { class: "files" }, ...files.map(fileView));
}

export function timeView(ms) {
  return el("time", { datetime: new Date(ms).toISOString(), title: exactly(ms) }, timeOfDay(ms));
}
