// Builds the element of one entry: a message of the user, an answer or a notice, sent or unsent.

import { buttonsView } from "./approvals.js";
import { copyButton, el, icon } from "./dom.js";
import { filesView } from "./files.js";
import { markdown } from "./markdown.js";
import { timeView } from "./time.js";
import { toolList } from "./tools.js";

export function itemView(item, { onPress, onTryAgain }) {
  if (item.kind === "user") return userView(item);
  const buttons = item.choices?.length > 0 && buttonsView(item.choices, onPress);
  return item.kind === "notice" ? noticeView(item, buttons) : answerView(item, buttons, onTryAgain);
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

/** Show a message that the gateway has not accepted yet. */
export function unsentView(message, { onRetry, onTakeBack }) {
  const status = message.refused
    ? [
        el("span", { class: "problem" }, message.problem || "Not accepted."),
        button("retry", "Try again", onRetry),
        button("close", "Take back and edit", onTakeBack),
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

const button = (name, text, onclick) => el("button", { type: "button", class: "small", onclick }, icon(name), text);

function tryAgainButton(onTryAgain) {
  const onclick = (event) => {
    event.currentTarget.disabled = true;
    onTryAgain();
  };
  return el("button", { type: "button", class: "plain try-again", onclick }, icon("retry"), "Try again");
}

function answerView(item, buttons, onTryAgain) {
  return el(
    "li",
    { class: item.failed ? "entry answer failed" : "entry answer" },
    el("span", { class: "mark" }, icon("wing")),
    el("h3", { class: "unseen" }, "Hermes"),
    item.tools?.length > 0 && toolList(item.tools, item.key),
    markdown(item.text, "auto"),
    filesView(item.files),
    buttons,
    item.canTryAgain && tryAgainButton(onTryAgain),
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
