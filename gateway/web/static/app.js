// Brings the page to life: which chat is open, what the gateway says, and what the keys do.

import { get, whenLocked } from "./api.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { byId } from "./dom.js";
import { setUpViewer } from "./files.js";
import { Line } from "./line.js";
import { Panels } from "./panels.js";
import { Questions } from "./questions.js";
import { Sidebar } from "./sidebar.js";
import { forget, load, save } from "./storage.js";
import { Timeline, announce } from "./timeline.js";
import { Unsent, newChatId, newId } from "./unsent.js";

const CHAT = /^#([0-9a-f]{16})$/;
const ANSWER_SOON_MS = 1_500;
const AGAIN_MS = 3_000;

class App {
  constructor() {
    const onProblem = (problem) => this.problem(problem);
    this.line = new Line({
      onOpen: () => this.arrived(),
      onAway: () => this.away(),
      onEvent: (event) => this.take(event),
    });
    this.unsent = new Unsent(this.line, (chat) => chat === this.chat?.id && this.show());
    this.timeline = new Timeline({
      again: (message) => this.unsent.again(message.id),
      discard: (message) => this.takeBack(message),
      press: (item, choice) => this.press(item, choice),
      tryAgain: (item) => this.tryAgain(item),
    });
    this.questions = new Questions({ here: () => this.chat?.id, onProblem });
    this.sidebar = new Sidebar({ onProblem, onList: () => this.showTitle() });
    this.composer = new Composer({
      onSend: (text, files) => this.send(text, files),
      onStop: () => this.stop(),
      onProblem,
    });
    this.panels = new Panels({
      onNew: () => this.newChat(),
      onStop: () => this.chat?.isBusy && this.stop(),
      onUnlock: () => this.checkKey(),
    });
    this.chat = null;
    this.locked = false;
  }

  start() {
    whenLocked(() => this.lock());
    setUpViewer();
    window.addEventListener("hashchange", () => this.route());
    for (const example of document.querySelectorAll(".example")) {
      example.addEventListener("click", () => this.send(example.dataset.text, []));
    }
    this.route();
    this.line.connect();
  }

  // Which chat

  route() {
    const found = CHAT.exec(location.hash);
    if (!found) {
      history.replaceState(null, "", `#${freshChat()}`);
      this.route();
      return;
    }
    if (found[1] === this.chat?.id) return;
    this.chat = new Conversation(found[1], () => this.show());
    this.timeline.clear();
    this.sidebar.open(this.chat.id);
    this.questions.show();
    this.composer.open(this.chat.id);
    this.panels.closeDrawer();
    this.show();
    if (this.line.isOpen) this.refresh();
    this.panels.focusComposer();
  }

  newChat() {
    location.hash = freshChat();
    this.panels.closeDrawer();
    this.panels.focusComposer();
  }

  async refresh() {
    const chat = this.chat;
    const asked = chat.stale();
    const isCurrent = () => chat === this.chat && chat.asked === asked;
    try {
      const loaded = await get(`/api/chats/${chat.id}`);
      if (isCurrent()) chat.load(loaded);
    } catch (problem) {
      this.problem(problem);
      setTimeout(() => isCurrent() && this.line.isOpen && this.refresh(), AGAIN_MS);
    }
  }

  /** Nothing of it stays in this browser either. */
  deleted(id) {
    this.unsent.drop(id);
    if (id === this.chat.id) {
      this.composer.discard();
      this.newChat();
    } else forget(`draft.${id}`);
  }

  // What is said

  send(text, files) {
    forgetFreshChat(this.chat.id);
    this.timeline.follows = true;
    this.unsent.add({ chat: this.chat.id, text, files });
  }

  /** What became of it is said by the message itself. */
  press(item, choice) {
    const sent = this.line.send({ type: "press", id: newId(), chat: this.chat.id, about: item.key, action: choice.action });
    if (!sent) this.refresh();
  }

  /** Sends once more what a failed turn was to answer. */
  tryAgain({ answers }) {
    for (const message of this.chat.messages(answers)) this.send(message.text, message.files);
  }

  stop() {
    this.send("/stop", []);
  }

  takeBack(message) {
    if (this.composer.restore(message)) this.unsent.taken(message.id);
  }

  take(event) {
    if (event.type === "ack") this.unsent.taken(event.id);
    else if (event.type === "retry") this.unsent.later(event.id, event.problem);
    else if (event.type === "error") event.id ? this.unsent.refuse(event.id, event.problem) : this.problem(event);
    else if (event.type === "chats") this.sidebar.reload();
    else if (event.type === "deleted") this.deleted(event.chat);
    else if (event.type === "questions") this.questions.fetch();
    else this.takeNews(event);
  }

  takeNews(event) {
    if (event.type === "started" || event.type === "ended")
      this.sidebar.mark(event.chat, { running: event.type === "started" });
    if (event.type === "message") this.sidebar.mark(event.chat, { unread: true });
    if (event.type === "user") {
      this.unsent.taken(event.item.id);
      this.sidebar.reload(); // it may be the first message of a new chat
    }
    if (event.chat !== this.chat.id) return;
    this.chat.take(event);
    if (event.type === "message") this.answered(event.item);
    // A message that was changed, or words that only decided something: the gateway knows how all of it stands.
    if (event.type === "message" && event.item.kind === "notice") this.refresh();
    if (event.type === "ended") this.expectAnswer();
  }

  answered(item) {
    announce(item.text);
    this.panels.noticeAnswer();
  }

  /** A turn that was stopped ends without an answer: then look what became of it. */
  expectAnswer() {
    const chat = this.chat;
    setTimeout(() => {
      if (chat === this.chat && chat.draft?.over) this.refresh();
    }, ANSWER_SOON_MS);
  }

  show() {
    const unsent = this.unsent.of(this.chat.id);
    this.timeline.show(this.chat, unsent);
    byId("empty").hidden = !this.chat.isEmpty || unsent.length > 0 || (!this.chat.loaded && !isFresh(this.chat.id));
    this.composer.setBusy(this.chat.isBusy);
    this.showTitle();
  }

  showTitle() {
    const listed = this.sidebar.chats.find((one) => one.id === this.chat?.id);
    this.panels.setTitle(listed?.title || this.chat?.title || "");
  }

  // How the gateway is

  async arrived() {
    this.panels.setAway(false);
    this.unsent.reconnected();
    this.refresh();
    this.sidebar.fetch();
    this.questions.fetch();
    try {
      const about = await get("/api/about");
      this.composer.attachments.maxBytes = about.max_file_bytes;
      this.composer.menu.commands = about.commands;
      this.panels.setAbout(about);
    } catch (problem) {
      this.problem(problem);
    }
  }

  away() {
    this.panels.setAway(true);
    this.chat?.stale();
    this.checkKey();
  }

  /** A WebSocket cannot say why it was refused; a request can. */
  async checkKey() {
    try {
      await get("/api/about");
    } catch {
      return; // away, or locked, which has its own screen
    }
    if (!this.locked) return;
    this.locked = false;
    this.panels.setLocked(false);
    this.line.resume();
  }

  lock() {
    if (this.locked) return;
    this.locked = true;
    this.composer.keep();
    this.line.pause();
    this.panels.setLocked(true);
  }

  problem(problem) {
    if (!this.locked && this.line.isOpen) this.panels.toast(problem.problem ?? problem.message ?? problem);
  }
}

/** One chat that nothing was sent to yet, so that "new chat" finds what was begun there. */
function freshChat() {
  const fresh = load("fresh") ?? newChatId();
  save("fresh", fresh);
  return fresh;
}

const isFresh = (id) => load("fresh") === id;

function forgetFreshChat(id) {
  if (isFresh(id)) forget("fresh");
}

new App().start();
