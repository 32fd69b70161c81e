// The gateway's state in a line, and the three things one can do to it.

import { post } from "./api.js";
import { byId } from "./dom.js";

const WORDS = {
  starting: "Gateway is starting",
  running: "Gateway is running",
  stopping: "Gateway is finishing its turns",
  stopped: "Gateway stopped",
  killed: "Gateway killed",
  died: "Gateway exited by itself",
};

export class Gateway {
  constructor({ onEnd }) {
    this.onEnd = onEnd;
    for (const action of ["start", "stop", "kill"])
      byId(`gateway-${action}`).addEventListener("click", () => post(`/api/gateway/${action}`));
  }

  show(facts) {
    const alive = ["starting", "running", "stopping"].includes(facts.state);
    const troubled = Object.entries(facts.platforms).filter(([, one]) => one.state !== "connected");
    byId("gateway").dataset.state = facts.state === "running" && troubled.length ? "troubled" : facts.state;
    byId("gateway-state").replaceChildren(...this.words(facts, troubled));
    byId("gateway-start").hidden = alive;
    byId("gateway-stop").hidden = !alive;
    byId("gateway-stop").disabled = facts.state === "stopping";
    byId("gateway-kill").hidden = !alive;
    if (facts.state === "died" && this.state !== "died") this.onEnd();
    this.state = facts.state;
  }

  words(facts, troubled) {
    const line = document.createElement("b");
    line.textContent = WORDS[facts.state];
    const more = [];
    if (facts.pid) more.push(`pid ${facts.pid}`);
    if (facts.state === "died") more.push(`exit code ${facts.code}; its last lines are in the log`);
    for (const [name, one] of troubled) more.push(`${name} ${one.state}`);
    if (facts.state === "running" && !troubled.length) more.push("connected to all three");
    return [line, more.length ? `  ${more.join(" · ")}` : ""];
  }
}
