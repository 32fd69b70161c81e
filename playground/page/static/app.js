// Brings the page to life: three phones, the terminal, the trail and the rows, all told by one socket.

import { Live } from "./api.js";
import { byId, toast } from "./dom.js";
import { Gateway } from "./gateway.js";
import { Phone } from "./phone.js";
import { Tables } from "./rows.js";
import { Terminal } from "./terminal.js";
import { Trails } from "./trail.js";

const APPS = { telegram: "Telegram", discord: "Discord", slack: "Slack" };
const THEME_WORDS = { system: "Auto", light: "Light", dark: "Dark" };

class App {
  constructor() {
    this.phones = {};
    for (const [platform, name] of Object.entries(APPS)) {
      this.phones[platform] = new Phone(platform, name, (...where) => this.look(...where));
      byId("phones").append(this.phones[platform].element);
    }
    this.terminal = new Terminal();
    this.trails = new Trails();
    this.tables = new Tables();
    this.gateway = new Gateway({ onEnd: () => this.terminal.open("log") });
    this.live = new Live({
      onOpen: () => this.arrived(),
      onAway: () => (byId("away").hidden = false),
      onNews: (news) => this.take(news),
    });
    this.setUpTabs();
    this.setUpTheme();
    this.setUpDialogs();
    // A file that misses a phone must not replace the page.
    for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());
  }

  async arrived() {
    byId("away").hidden = true;
    for (const phone of Object.values(this.phones)) {
      if (phone.view) this.look(phone.platform, phone.where().person, phone.where().place);
    }
    try {
      this.terminal.prefix = (await (await fetch("/api/about")).json()).prefix;
    } catch {
      toast("The playground does not answer.");
    }
  }

  look(platform, person, place) {
    this.live.send({ look: platform, person, place });
  }

  take(news) {
    if (news.type === "phone") this.phones[news.platform].show(news);
    else if (news.type === "codes") this.terminal.setCodes(news.codes);
    else if (news.type === "gateway") {
      this.gateway.show(news);
      this.terminal.setLog(news.log);
    } else if (news.type === "rows") {
      this.tables.show(news.tables);
      this.terminal.setRequests(news.tables.pairing_requests.rows);
      this.trails.show(news.trails);
    }
  }

  setUpTabs() {
    const tabs = [...byId("tabs").children];
    const choose = (tab) => {
      tabs.forEach((one) => {
        one.setAttribute("aria-selected", String(one === tab));
        one.tabIndex = one === tab ? 0 : -1;
      });
      byId("main").dataset.part = tab.dataset.part;
    };
    tabs.forEach((tab, index) => {
      tab.addEventListener("click", () => choose(tab));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(index + step + tabs.length) % tabs.length];
        choose(next);
        next.focus();
      });
    });
  }

  setUpTheme() {
    const word = (theme) => (byId("theme-word").textContent = THEME_WORDS[theme]);
    word(window.hermesTheme.current());
    byId("theme").addEventListener("click", () => word(window.hermesTheme.next()));
  }

  setUpDialogs() {
    byId("try").addEventListener("click", () => byId("help").showModal());
    for (const button of document.querySelectorAll("dialog .close"))
      button.addEventListener("click", () => button.closest("dialog").close());
    byId("viewer-image").addEventListener("click", () => byId("viewer").close());
  }
}

new App();
