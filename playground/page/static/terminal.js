// The owner's terminal: commands with what was just seen filled in, run for real or copied.

import { post } from "./api.js";
import { byId, el, toast } from "./dom.js";

const KEPT_OUTPUTS = 30;

export class Terminal {
  constructor() {
    this.prefix = "";
    this.codes = [];
    this.requests = [];
    this.log = "";
    for (const shown of ["terminal", "log"]) byId(`show-${shown}`).addEventListener("click", () => this.open(shown));
    this.show();
  }

  open(shown) {
    byId("terminal").hidden = shown !== "terminal";
    byId("log").hidden = shown !== "log";
    byId("show-terminal").setAttribute("aria-pressed", String(shown === "terminal"));
    byId("show-log").setAttribute("aria-pressed", String(shown === "log"));
    if (shown === "log") byId("log").scrollTop = byId("log").scrollHeight;
  }

  setLog(lines) {
    const text = lines.join("\n");
    if (text === this.log) return;
    this.log = text;
    const box = byId("log");
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    box.textContent = text;
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  setCodes(codes) {
    this.codes = codes;
    this.show();
  }

  setRequests(rows) {
    this.requests = rows;
    this.show();
  }

  /** Codes that still wait, then what is always there, then how to revoke the access of those who were let in. */
  commands() {
    const rowOf = (code) => this.requests.find((row) => row.account === code.platform && row.user_id === code.person);
    const stateOf = (code) => rowOf(code)?.state ?? "pending";
    const newest = [...this.codes].sort((a, b) => b.at_ms - a.at_ms);
    const always = [
      ...["pairing list", "approvals list", "status", "trace last", "usage", "sessions list"],
      ...["doctor", "doctor --security"],
    ];
    return [
      ...newest.filter((code) => stateOf(code) === "pending").map(approval),
      ...always.map((words) => ({ words, ask: { command: words } })),
      ...newest.filter((code) => stateOf(code) === "approved").map(revocation),
    ];
  }

  show() {
    const commands = this.commands();
    const wanted = JSON.stringify(commands);
    if (wanted === this.shown) return;
    this.shown = wanted;
    byId("commands").replaceChildren(...commands.map((one) => this.line(one)));
    if (commands[0].fresh) byId("commands").scrollTop = 0;
    byId("output").scrollTop = byId("output").scrollHeight; // there is more or less room for it now
  }

  line(command) {
    const words = `hermes ${command.words}`;
    const knob = (label, kind) =>
      el("button", { type: "button", class: kind, "aria-label": `${label} ${words}` }, label);
    const copy = knob("Copy", "knob tiny");
    const run = knob("Run", "knob tiny main-knob");
    copy.addEventListener("click", () => this.copy(words, copy));
    run.addEventListener("click", () => this.run(command, run));
    return el(
      "li",
      { class: command.fresh ? "command fresh" : "command" },
      el(
        "span",
        { class: "command-words", title: words },
        el("code", {}, el("span", { class: "prompt", "aria-hidden": "true" }, "$ "), words),
        command.why && el("small", {}, command.why),
      ),
      copy,
      run,
    );
  }

  async copy(words, button) {
    try {
      await navigator.clipboard.writeText(`${this.prefix} ${words}`);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    } catch {
      toast("The browser does not allow copying here. Select the text by hand.");
    }
  }

  async run(command, button) {
    button.disabled = true;
    const line = el("p", { class: "ran-line" }, el("span", { class: "prompt" }, "$ "), `hermes ${command.words}`);
    const printed = el("pre", {}, "…");
    const output = el("div", { class: "ran" }, line, printed);
    const box = byId("output");
    box.append(output);
    while (box.children.length > KEPT_OUTPUTS) box.firstChild.remove();
    box.scrollTop = box.scrollHeight;
    const told = await post("/api/terminal", command.ask);
    printed.textContent = told ? told.output.trimEnd() || "(no output)" : "The command was not run.";
    output.classList.toggle("failed", told?.code !== 0);
    box.scrollTop = box.scrollHeight;
    button.disabled = false;
  }
}

const approval = ({ platform, code, name }) => ({
  fresh: true,
  why: `${name} was told this code on ${platform}`,
  words: `pairing approve ${platform} ${code}`,
  ask: { command: "pairing approve", platform, code },
});

const revocation = ({ platform, person, name }) => ({
  why: `revokes the access of ${name}`,
  words: `pairing revoke ${platform} ${person}`,
  ask: { command: "pairing revoke", platform, user: person },
});
