// Smaller parts of a phone: the connection switch, the list of chats, and the end of a chat.

import { el } from "./dom.js";
import { avatar } from "./message.js";
import { wordsToNodes } from "./text.js";

const LINES = {
  up: ["Up", "The gateway and the platform reach each other"],
  half_open: ["Half-open", "Connections stay open, but nothing comes through"],
  down: ["Cut", "The platform's server is down"],
};
const EXAMPLES = ["what is 17 * 23?", "todo: water the plants", "what time is it in Asia/Tokyo?"];
const MARKS = { topic: "›", channel: "#", thread: "›" };

export function lineSwitch(app, onChoose) {
  const buttons = Object.entries(LINES).map(([state, [label, help]]) =>
    el("button", { type: "button", "data-line": state, title: help, onclick: () => onChoose(state) }, label),
  );
  const label = `The connection between the gateway and ${app}`;
  return el("div", { class: "switch line", role: "group", "aria-label": label }, buttons);
}

export function subtitleOf(here, places) {
  const parent = places.find((place) => place.id === here.parent);
  const within = parent?.kind === "channel" ? `#${parent.title}` : (parent?.title ?? "");
  if (here.kind === "thread") return `thread in ${within}`;
  return { dm: "bot", group: "group", topic: within, channel: "channel" }[here.kind];
}

export function placeItems(view, { onGo, onNewTopic }) {
  const items = [];
  for (const place of view.places) {
    items.push(el("li", { class: place.parent ? "inner" : "" }, placeButton(place, view.place, onGo)));
    if (place.kind !== "group" || !place.joined) continue;
    const onclick = () => onNewTopic(place.id);
    const more = el("button", { type: "button", class: "place new", onclick }, "New topic…");
    items.push(el("li", { class: "inner" }, more));
  }
  return items;
}

function placeButton(place, current, onGo) {
  const mark = MARKS[place.kind];
  return el(
    "button",
    {
      type: "button",
      class: "place",
      "aria-current": place.id === current ? "true" : undefined,
      onclick: () => onGo(place.id),
    },
    mark ? el("span", { class: "mark", "aria-hidden": "true" }, mark) : avatar(place.title, place.kind === "dm"),
    el("span", { dir: "auto" }, place.title),
  );
}

export const draftElement = (draft, names) =>
  el(
    "div",
    { class: "draft", "aria-label": "Draft" },
    el("div", { class: "words", dir: "auto" }, wordsToNodes(draft.words, names)),
  );

export const dots = () => el("div", { class: "dots", "aria-hidden": "true" }, el("i"), el("i"), el("i"));

export const joinOffer = (onJoin) =>
  el(
    "div",
    { class: "join" },
    el("p", {}, "This person has not joined yet."),
    el("button", { type: "button", class: "press primary", onclick: onJoin }, "Join"),
  );

/** The text of an empty chat, with examples to start from. */
export function invitation(view, here, onSay) {
  const isOwner = view.people.find((one) => one.id === view.person)?.owner;
  let words = "The bot does not know this person yet.";
  let examples = ["Hello!"];
  if (here.kind !== "dm") {
    words = "In a group, the bot answers when it is mentioned.";
    examples = [`@${view.handle} what is 6 * 7?`];
  } else if (isOwner) {
    words = "You own this bot. Ask it something.";
    examples = EXAMPLES;
  }
  const buttons = examples.map((text) =>
    el("button", { type: "button", class: "press example", onclick: () => onSay(text) }, text),
  );
  return el("div", { class: "nothing" }, el("p", {}, words), buttons);
}
