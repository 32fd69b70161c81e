// What waits for a decision in other chats: a list above the conversation. In the open chat the question stands itself.

import { get, post } from "./api.js";
import { byId, el } from "./dom.js";

export class Questions {
  /** `here`: the chat that is open; `onProblem`: what could not be done. */
  constructor({ here, onProblem }) {
    Object.assign(this, { here, onProblem });
    this.questions = [];
    this.asked = 0; // only the newest answer counts
  }

  async fetch() {
    const asked = ++this.asked;
    try {
      const { questions } = await get("/api/questions");
      if (asked !== this.asked) return;
      this.questions = questions;
      this.show();
    } catch (problem) {
      this.onProblem(problem);
    }
  }

  show() {
    const elsewhere = this.questions.filter((one) => one.account !== "web" || one.chat !== this.here());
    byId("waiting").hidden = !elsewhere.length;
    byId("waiting-list").replaceChildren(...elsewhere.map((one) => this.view(one)));
  }

  view(question) {
    return el(
      "li",
      { class: "question", "data-id": question.id },
      el("p", {}, question.for ? `Allow this for ${question.for}?` : "Allow this?"),
      el("pre", {}, question.action),
      el("p", { class: "why" }, whyOf(question)),
      el("p", { class: "why asked-in" }, "Asked in ", placeOf(question), "."),
      buttonsView(question.choices, (choice) => this.decide(question.id, choice.verdict)),
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
function placeOf({ account, chat, place }) {
  return account === "web" ? el("a", { href: `#${chat}`, dir: "auto" }, place || "New chat") : el("bdi", {}, place);
}

function whyOf({ where, reasons, rules }) {
  const said = [where && `Where: ${where}.`, ...reasons.map((reason) => `Reason: ${reason}.`)];
  if (rules.length) said.push(`Session and Always also allow ${rules.join(", ")}.`);
  return said.filter(Boolean).join(" ");
}

/** Below a message: all are dead once one was pressed. */
export function buttonsView(choices, press) {
  const row = el("div", { class: "choices" });
  for (const choice of choices) {
    const onclick = () => {
      for (const button of row.children) button.disabled = true;
      press(choice);
    };
    row.append(el("button", { type: "button", class: "plain", onclick }, choice.label));
  }
  return row;
}
