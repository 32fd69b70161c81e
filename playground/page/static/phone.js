// One phone: who holds it, which chat is open on it, and what it shows.

import { post, sendFile } from "./api.js";
import { Composer } from "./composer.js";
import { ask, byId, el, iconButton } from "./dom.js";
import { avatar, messageElement, messageMenu } from "./message.js";
import { draftElement, dots, invitation, joinOffer, lineSwitch, placeItems, subtitleOf } from "./phone_parts.js";

const LISTS = { telegram: "Chats", discord: "Garden club", slack: "Playground" };
const NEW_PERSON = "new";
const NEAR_END_PX = 60;
const SAME_BREATH_MS = 300_000; // messages of one author within this time need no second name

export class Phone {
  constructor(platform, app, look) {
    Object.assign(this, { platform, app, look });
    this.view = null;
    this.chosen = null; // another person or chat, until it is shown
    this.shown = new Map(); // message id -> [what it was drawn from, element]
    this.listOpen = false;
    this.follows = true; // the newest message stays in sight, until somebody scrolls away from it
    this.build();
    this.listen();
  }

  build() {
    const { app, platform } = this;
    this.person = el("select", { class: "person", "aria-label": `Who holds the phone with ${app}` });
    this.lines = lineSwitch(app, (state) => post(`/api/phones/${platform}/line/${state}`));
    this.back = iconButton("back", "Chats", { class: "back", onclick: () => this.openList(!this.listOpen) });
    this.face = el("span", { class: "face" });
    this.title = el("b", { dir: "auto" });
    this.subtitle = el("small");
    this.messages = el("ol", { class: "messages" });
    const log = { class: "scroll", tabindex: 0, role: "log", "aria-label": `Messages on ${app}` };
    this.scroll = el("div", log, this.messages);
    this.list = el("ul", { class: "places", "aria-label": `Chats on ${app}`, hidden: true });
    this.composer = new Composer({
      app,
      onSay: (text, replyTo) => this.do("say", { text, reply_to: replyTo }),
      onEdit: (message, text) => this.do("edit", { message: message.id, text }),
      onFile: (file, more) => this.file(file, more),
    });
    const titles = el("div", { class: "titles" }, this.title, this.subtitle);
    this.screen = el(
      "div",
      { class: "screen" },
      el("header", { class: "app-bar" }, this.back, this.face, titles, el("h2", { class: "platform" }, app)),
      this.scroll,
      this.list,
      this.composer.element,
      el("div", { class: "drop", "aria-hidden": "true" }, "Drop to send"),
    );
    this.element = el(
      "section",
      { class: `slot ${platform}`, "data-part": platform, "aria-label": app },
      el("div", { class: "slot-bar" }, this.person, this.lines),
      el("div", { class: "case" }, this.screen),
    );
  }

  listen() {
    const { screen, scroll } = this;
    this.person.addEventListener("change", () => this.switchPerson());
    screen.addEventListener("dragover", (event) => (event.preventDefault(), screen.classList.add("dropping")));
    screen.addEventListener("dragleave", () => screen.classList.remove("dropping"));
    screen.addEventListener("drop", (event) => {
      event.preventDefault();
      screen.classList.remove("dropping");
      [...event.dataTransfer.files].forEach((file) => this.composer.file(file));
    });
    screen.addEventListener("click", (event) => {
      if (!event.target.closest(".menu, .more")) this.closeMenu();
      if (!event.target.closest(".attach, .plus")) this.composer.toggleAttach(false);
    });
    scroll.addEventListener("scroll", () => {
      this.follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END_PX;
    });
    const sizes = new ResizeObserver(() => this.toEnd()); // pictures arrive later than their message
    for (const part of [this.messages, scroll]) sizes.observe(part);
    this.list.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.openList(false);
      this.back.focus();
    });
  }

  toEnd() {
    if (this.follows) this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  // What people do

  do(action, details = {}) {
    const { person, place } = this.where();
    if (action === "say") this.follows = true;
    return post(`/api/phones/${this.platform}/${action}`, { person, place, ...details });
  }

  file(file, more) {
    const { person, place } = this.where();
    this.follows = true;
    return sendFile(this.platform, { person, place, name: file.name, ...more }, file);
  }

  async switchPerson() {
    if (this.person.value !== NEW_PERSON) return this.go({ person: this.person.value });
    const name = await ask(`A new person on ${this.app}: what is their name?`, "Cleo");
    this.person.value = this.view.person;
    const made = name && (await post(`/api/phones/${this.platform}/person`, { text: name }));
    if (made) this.go({ person: made.person, place: "dm" });
  }

  go({ person = this.view.person, place = this.view.place }) {
    this.composer.end();
    this.openList(false);
    this.chosen = { person, place };
    this.look(this.platform, person, place);
  }

  /** Who acts, and in which chat. What was chosen counts at once, though what is to be seen there has yet to come. */
  where() {
    return this.chosen ?? this.view;
  }

  /** What was sent before the choice arrived would lead back to where one was. */
  isOutdated(view) {
    if (!this.chosen) return false;
    const { person, place } = this.chosen;
    if (view.person !== person) return view.people.some((one) => one.id === person);
    return view.place !== place && view.places.some((one) => one.id === place);
  }

  act(action, message, details = {}) {
    if (action === "go") return this.go(details);
    if (action === "menu") return this.openMenu(message, details.button);
    if (action === "reply" || action === "edit") return this.composer.begin(action, message);
    if (action === "thread") return this.openThread(message);
    return this.do(action, { message: message.id, ...details });
  }

  async openThread(message) {
    const said = message.words.map((one) => one.text).join(" ");
    const isNamed = this.platform !== "slack";
    const name = isNamed ? await ask("Name of the thread", said.slice(0, 30) || "thread") : "thread";
    const made = name && (await this.do("thread", { message: message.id, text: name }));
    if (made?.place) this.go({ place: made.place });
  }

  async openTopic(place) {
    const name = await ask("What is the topic?", "Tulips");
    const made = name && (await this.do("thread", { place, text: name }));
    if (made?.place) this.go({ place: made.place });
  }

  openMenu(message, button) {
    const again = this.menu?.dataset.id === message.id;
    this.closeMenu();
    if (again) return;
    this.menu = messageMenu(message, {
      canReply: this.platform !== "slack",
      canThread: this.here().kind === "channel",
      act: (...values) => this.act(...values),
      close: () => this.closeMenu(),
    });
    this.menu.dataset.id = message.id;
    this.menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.closeMenu();
      button.focus();
    });
    button.closest(".column").append(this.menu);
    this.menu.scrollIntoView({ block: "nearest" });
    this.menu.querySelector("button").focus();
  }

  closeMenu() {
    this.menu?.remove();
    this.menu = null;
  }

  // What is shown

  here() {
    return this.view.places.find((place) => place.id === this.view.place);
  }

  show(view) {
    if (this.isOutdated(view)) return;
    const before = this.view;
    this.view = view;
    this.chosen = null;
    const moved = before?.place !== view.place || before?.person !== view.person;
    if (moved) this.openList(false);
    this.showPeople();
    for (const one of this.lines.children) one.setAttribute("aria-pressed", String(one.dataset.line === view.line));
    this.element.dataset.line = view.line;
    this.showBar();
    this.showList();
    this.showMessages(moved);
  }

  showPeople() {
    const { people, person } = this.view;
    const wanted = JSON.stringify(people);
    if (this.peopleShown !== wanted) {
      this.peopleShown = wanted;
      const options = people.map((one) => el("option", { value: one.id }, one.name));
      this.person.replaceChildren(...options, el("option", { value: NEW_PERSON }, "New person…"));
    }
    this.person.value = person;
  }

  showBar() {
    const here = this.here();
    const title = here.kind === "channel" ? `# ${here.title}` : here.title;
    this.title.textContent = this.listOpen ? LISTS[this.platform] : title;
    this.face.replaceChildren(avatar(here.title, here.kind === "dm"));
    this.showTyping();
    this.composer.element.hidden = !here.joined;
    this.composer.show({
      ...this.view,
      hint: this.platform === "telegram" ? "Message" : here.parent ? "Reply" : `Message ${title.replace("# ", "#")}`,
      canMention: here.kind !== "dm" && here.parent !== "dm",
    });
  }

  showTyping() {
    clearTimeout(this.typingTimer);
    const left = this.view.typing_until_ms - Date.now();
    this.element.classList.toggle("typing", left > 0);
    const about = left > 0 ? "typing…" : subtitleOf(this.here(), this.view.places);
    this.subtitle.textContent = this.listOpen ? this.app : about;
    if (left > 0) this.typingTimer = setTimeout(() => (this.showTyping(), this.showEnd()), left);
  }

  openList(open) {
    if (this.listOpen === open) return;
    this.listOpen = open;
    this.list.hidden = !open;
    this.back.setAttribute("aria-expanded", String(open));
    this.showBar();
    if (open) this.list.querySelector("button")?.focus();
  }

  showList() {
    const wanted = JSON.stringify([this.view.places, this.view.place]);
    if (this.listShown === wanted) return;
    this.listShown = wanted;
    const onGo = (place) => this.go({ place });
    this.list.replaceChildren(...placeItems(this.view, { onGo, onNewTopic: (place) => this.openTopic(place) }));
  }

  showMessages(moved) {
    if (moved) {
      this.shown.clear();
      this.follows = true;
    }
    const act = (...values) => this.act(...values);
    const drawn = new Map();
    let last = null;
    for (const message of this.view.messages) {
      const isSame = last && !last.service && last.author_id === message.author_id;
      const follows = isSame && message.at_ms - last.at_ms < SAME_BREATH_MS;
      const from = JSON.stringify([message, follows]);
      const known = this.shown.get(message.id);
      const draw = () => [from, messageElement(message, { names: this.view.names, follows, act })];
      drawn.set(message.id, known?.[0] === from ? known : draw());
      last = message;
    }
    if (!moved) this.announce();
    this.shown = drawn;
    this.end = el("li", { class: "end" });
    place(this.messages, [...[...drawn.values()].map(([, element]) => element), this.end]);
    this.showEnd();
    this.toEnd();
  }

  announce() {
    const fresh = this.view.messages.filter((one) => one.by_bot && !this.shown.has(one.id)).at(-1);
    if (fresh) byId("spoken").textContent = `${this.app}: ${fresh.words.map((one) => one.text).join(" ")}`;
  }

  /** What stands behind the last message: a draft, dots, an invitation to join, or something to begin with. */
  showEnd() {
    clearTimeout(this.draftTimer);
    const here = this.here();
    const drafts = this.view.drafts.filter((one) => one.until_ms > Date.now() && one.words.text);
    const nodes = drafts.map((one) => draftElement(one, this.view.names));
    if (!nodes.length && this.element.classList.contains("typing")) nodes.push(dots());
    const isEmpty = !this.view.messages.some((one) => !one.service);
    if (!here.joined) nodes.push(joinOffer(() => this.do("join")));
    else if (isEmpty && !nodes.length) nodes.push(invitation(this.view, here, (text) => this.do("say", { text })));
    this.end.replaceChildren(...nodes);
    const soonest = Math.min(...drafts.map((one) => one.until_ms));
    if (drafts.length) this.draftTimer = setTimeout(() => this.showEnd(), soonest - Date.now() + 10);
  }
}

/** Makes the children be these, touching only what is not in its place: what stays keeps its focus and its player. */
function place(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((element, index) => {
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
  });
}
