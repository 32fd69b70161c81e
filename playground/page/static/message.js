// One message as a phone shows it, and the menu of what can be done with it.

import { byId, el, icon, iconButton, sizeOf, timeOfDay } from "./dom.js";
import { wordsToNodes } from "./text.js";

export const REACTIONS = ["👍", "❤️", "🎉", "👀"];

/** `follows`: the one before is by the same author, so who and when need not be said again. */
export function messageElement(message, { names, follows, act }) {
  if (message.service) return el("li", { class: "service" }, el("span", {}, message.service));
  const { by_bot: isBot, private: isPrivate } = message;
  const whose = message.mine ? "mine" : "theirs";
  const kinds = ["message", whose, isBot && "bot", follows && "follows", isPrivate && "private"];
  const item = el("li", { class: kinds.filter(Boolean).join(" "), "data-id": message.id });
  item.append(avatar(message.author, message.by_bot));
  const body = el("div", { class: "body" }, header(message));
  if (message.quote) body.append(quoteOf(message.quote));
  for (const file of message.files) body.append(fileElement(file));
  for (const words of message.words)
    body.append(el("div", { class: "words", dir: "auto" }, wordsToNodes(words, names)));
  body.append(footer(message));
  const column = el("div", { class: "column" }, el("div", { class: "bubble" }, body, menuButton(message, act)));
  if (message.buttons.some((row) => row.length)) column.append(buttonsOf(message, act));
  if (message.reactions.length) column.append(reactionsOf(message, act));
  if (message.thread) column.append(threadOf(message.thread, act));
  item.append(column);
  return item;
}

export function avatar(name, isBot) {
  const shade = [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7);
  const face = el("span", { class: isBot ? "avatar bot-avatar" : "avatar", "aria-hidden": "true" });
  if (isBot) face.append(el("img", { src: "/static/icon.svg", alt: "" }));
  else {
    face.textContent = [...name][0]?.toUpperCase() ?? "?";
    face.style.setProperty("--hue", shade);
  }
  return face;
}

function header(message) {
  const name = el("span", { class: "author" }, message.author);
  if (message.by_bot) name.append(el("span", { class: "tag" }));
  return el("div", { class: "head" }, name, el("time", { class: "head-time" }, timeOfDay(message.at_ms)));
}

function footer(message) {
  const foot = el("div", { class: "foot" });
  if (message.private) foot.append(el("span", { class: "only-you" }, "Only visible to you"));
  if (message.edited) foot.append(el("span", { class: "edited" }, "edited"));
  foot.append(el("time", { class: "foot-time" }, timeOfDay(message.at_ms)));
  return foot;
}

const quoteOf = (quote) => el("div", { class: "quote" }, el("b", {}, quote.author), el("span", {}, quote.text));

function fileElement(file) {
  if (file.kind === "image") {
    const image = el("img", { src: file.url, alt: file.name, loading: "lazy" });
    const label = { "aria-label": `Show ${file.name}` };
    return el("button", { type: "button", class: "picture", ...label, onclick: () => show(file) }, image);
  }
  if (file.kind === "voice" || file.kind === "audio") {
    const player = el("audio", { src: file.url, controls: true, preload: "metadata", "aria-label": file.name });
    return el("div", { class: "sound" }, player);
  }
  return el(
    "a",
    { class: "file", href: file.url, download: file.name },
    icon("file"),
    el("span", {}, el("b", {}, file.name), el("small", {}, sizeOf(file.size_bytes))),
  );
}

function show(file) {
  byId("viewer-image").src = file.url;
  byId("viewer-image").alt = file.name;
  byId("viewer").showModal();
}

const buttonsOf = (message, act) =>
  el(
    "div",
    { class: "buttons" },
    message.buttons.map((row) =>
      el(
        "div",
        { class: "button-row" },
        row.map((one) =>
          el(
            "button",
            { type: "button", class: `press ${one.style}`, onclick: () => act("press", message, { button: one.key }) },
            one.label,
          ),
        ),
      ),
    ),
  );

const reactionsOf = (message, act) =>
  el(
    "div",
    { class: "reactions" },
    message.reactions.map((one) =>
      el(
        "button",
        {
          type: "button",
          class: one.mine ? "reaction mine" : "reaction",
          "aria-pressed": String(one.mine),
          onclick: () => act("react", message, { text: one.emoji }),
        },
        one.emoji,
        el("b", {}, String(one.count)),
      ),
    ),
  );

function threadOf(thread, act) {
  const count = thread.replies === 1 ? "1 reply" : `${thread.replies} replies`;
  return el(
    "button",
    { type: "button", class: "thread", onclick: () => act("go", null, { place: thread.place }) },
    el("b", {}, count),
    el("span", {}, thread.last),
  );
}

function menuButton(message, act) {
  const button = iconButton("more", "Message actions", { class: "more", "aria-haspopup": "menu" });
  button.addEventListener("click", () => act("menu", message, { button }));
  return button;
}

/** The menu itself: made when it is opened, gone when it is left. */
export function messageMenu(message, { canReply, canThread, act, close }) {
  const entry = (label, action, details) =>
    el("button", { type: "button", role: "menuitem", onclick: () => (close(), act(action, message, details)) }, label);
  const react = REACTIONS.map((emoji) => entry(emoji, "react", { text: emoji }));
  return el(
    "div",
    { class: "menu", role: "menu" },
    el("div", { class: "menu-react" }, react),
    canReply && entry("Reply", "reply"),
    canThread && entry("Reply in a thread", "thread"),
    message.mine && message.words.length > 0 && entry("Edit", "edit"),
    message.mine && entry("Delete", "delete"),
  );
}
