// The list of approval requests that wait in other chats, shown above the conversation, and the buttons below a message.

import { get, post } from "./api.js";
import { byId, el } from "./dom.js";

export class Approvals {
  /** `openChat` returns the id of the open chat, which shows its own requests in place. */
  constructor({ openChat, onProblem }) {
    Object.assign(this, { openChat, onProblem });
    this.requests = [];
    this.fetches = 0; // only the newest response counts
  }

  async fetch() {
    const number = ++this.fetches;
    try {
      const { questions } = await get("/api/questions");
      if (number !== this.fetches) return;
      this.requests = questions;
      this.show();
    } catch (problem) {
      this.onProblem(problem);
    }
  }

  show() {
    const elsewhere = this.requests.filter(({ account, chat }) => account !== "web" || chat !== this.openChat());
    byId("waiting").hidden = !elsewhere.length;
    byId("waiting-list").replaceChildren(...elsewhere.map((request) => this.view(request)));
  }

  view(request) {
    return el(
      "li",
      { class: "question", "data-id": request.id },
      el("p", {}, request.for ? `Allow this for ${request.for}?` : "Allow this?"),
      el("pre", {}, request.action),
      el("p", { class: "why" }, explain(request)),
      el("p", { class: "why asked-in" }, "Asked in ", placeView(request), "."),
      buttonsView(request.choices, (choice) => this.decide(request.id, choice.verdict)),
    );
  }

  async decide(id, verdict) {
    try {
      await post(`/api/questions/${id}`, { verdict });
    } catch (problem) {
      this.onProblem(problem);
    }
    this.fetch();
  }
}

/** Link to a chat of this page; name a chat of another platform. */
function placeView({ account, chat, place }) {
  return account === "web" ? el("a", { href: `#${chat}`, dir: "auto" }, place || "New chat") : el("bdi", {}, place);
}

function explain({ where, reasons, rules }) {
  const sentences = [where && `Where: ${where}.`, ...reasons.map((reason) => `Reason: ${reason}.`)];
  if (rules.length) sentences.push(`Session and Always also allow: ${rules.join(", ")}.`);
  return sentences.filter(Boolean).join(" ");
}

/** Build a row of buttons; pressing one disables all of them. */
export function buttonsView(choices, onPress) {
  const row = el("div", { class: "choices" });
  for (const choice of choices) {
    const onclick = () => {
      for (const button of row.children) button.disabled = true;
      onPress(choice);
    };
    row.append(el("button", { type: "button", class: "plain", onclick }, choice.label));
  }
  return row;
}
