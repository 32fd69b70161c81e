// The application: connects the parts of the page, opens chats, and passes on what the gateway sends.

import { get, setLockedHandler } from "./api.js";
import { Approvals } from "./approvals.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Conversation } from "./conversation.js";
import { byId } from "./dom.js";
import { setUpViewer } from "./files.js";
import { Panels } from "./panels.js";
import { Sidebar } from "./sidebar.js";
import { forget, load, save } from "./storage.js";
import { Timeline, announce } from "./timeline.js";
import { Unsent, newChatId, newId } from "./unsent.js";

const CHAT_HASH = /^#([0-9a-f]{16})$/;
const ANSWER_EXPECTED_MS = 1_500;
const RETRY_MS = 3_000;

class App {
  constructor() {
    const onProblem = (problem) => this.showProblem(problem);
    this.connection = new Connection({
      onOpen: () => this.handleConnected(),
      onLost: () => this.handleLost(),
      onEvent: (event) => this.handleEvent(event),
    });
    this.unsent = new Unsent(this.connection, (chat) => chat === this.chat?.id && this.show());
    this.timeline = new Timeline({
      onRetry: (message) => this.unsent.retry(message.id),
      onTakeBack: (message) => this.takeBack(message),
      onPress: (item, choice) => this.press(item, choice),
      onTryAgain: (item) => this.tryAgain(item),
    });
    this.approvals = new Approvals({ openChat: () => this.chat?.id, onProblem });
    this.sidebar = new Sidebar({ onProblem, onFetched: () => this.showTitle() });
    this.composer = new Composer({
      onSend: (text, files) => this.send(text, files),
      onStop: () => this.stop(),
      onProblem,
    });
    this.panels = new Panels({
      onNew: () => this.newChat(),
      onStop: () => this.chat?.isBusy && this.stop(),
      onUnlock: () => this.checkLogin(),
    });
    this.chat = null;
    this.locked = false;
  }

  start() {
    setLockedHandler(() => this.lock());
    setUpViewer();
    window.addEventListener("hashchange", () => this.route());
    for (const example of document.querySelectorAll(".example")) {
      example.addEventListener("click", () => this.send(example.dataset.text, []));
    }
    this.route();
    this.connection.connect();
  }

  // The open chat

  route() {
    const match = CHAT_HASH.exec(location.hash);
    if (!match) {
      history.replaceState(null, "", `#${freshChat()}`);
      this.route();
      return;
    }
    if (match[1] === this.chat?.id) return;
    this.chat = new Conversation(match[1], () => this.show());
    this.timeline.clear();
    this.sidebar.open(this.chat.id);
    this.approvals.show();
    this.composer.open(this.chat.id);
    this.panels.closeDrawer();
    this.show();
    if (this.connection.isOpen) this.refresh();
    this.panels.focusComposer();
  }

  newChat() {
    location.hash = freshChat();
    this.panels.closeDrawer();
    this.panels.focusComposer();
  }

  async refresh() {
    const chat = this.chat;
    const number = chat.invalidate();
    const isCurrent = () => chat === this.chat && chat.fetches === number;
    try {
      const loaded = await get(`/api/chats/${chat.id}`);
      if (isCurrent()) chat.load(loaded);
    } catch (problem) {
      this.showProblem(problem);
      setTimeout(() => isCurrent() && this.connection.isOpen && this.refresh(), RETRY_MS);
    }
  }

  /** Remove what this browser has stored of a deleted chat. */
  handleDeleted(id) {
    this.unsent.removeAll(id);
    if (id === this.chat.id) {
      this.composer.discard();
      this.newChat();
    } else forget(`draft.${id}`);
  }

  // Messages

  send(text, files) {
    if (isFresh(this.chat.id)) forget("fresh");
    this.timeline.follows = true;
    this.unsent.add({ chat: this.chat.id, text, files });
  }

  /** Press a button below a message. The gateway shows the outcome by changing that message. */
  press(item, choice) {
    const press = { type: "press", id: newId(), chat: this.chat.id, about: item.key, action: choice.action };
    if (!this.connection.send(press)) this.refresh();
  }

  /** Send the messages of a failed turn once more. */
  tryAgain({ answers }) {
    for (const message of this.chat.messages(answers)) this.send(message.text, message.files);
  }

  stop() {
    this.send("/stop", []);
  }

  /** Return a refused message to the composer. */
  takeBack(message) {
    if (this.composer.restore(message)) this.unsent.remove(message.id);
  }

  // Events

  handleEvent(event) {
    if (event.type === "ack") this.unsent.remove(event.id);
    else if (event.type === "retry") this.unsent.defer(event.id, event.problem);
    else if (event.type === "error") event.id ? this.unsent.refuse(event.id, event.problem) : this.showProblem(event);
    else if (event.type === "chats") this.sidebar.reload();
    else if (event.type === "deleted") this.handleDeleted(event.chat);
    else if (event.type === "questions") this.approvals.fetch();
    else this.handleChatEvent(event);
  }

  handleChatEvent(event) {
    if (event.type === "started" || event.type === "ended")
      this.sidebar.mark(event.chat, { running: event.type === "started" });
    if (event.type === "message") this.sidebar.mark(event.chat, { unread: true });
    if (event.type === "user") {
      this.unsent.remove(event.item.id);
      this.sidebar.reload(); // it may be the first message of a new chat
    }
    if (event.chat !== this.chat.id) return;
    this.chat.handle(event);
    if (event.type === "message") {
      announce(event.item.text);
      this.panels.noteAnswer();
    }
    // A notice may change earlier entries: fetch the state of all of them.
    if (event.type === "message" && event.item.kind === "notice") this.refresh();
    if (event.type === "ended") this.expectAnswer();
  }

  /** Fetch the chat if a turn ended without an answer, as a stopped one does. */
  expectAnswer() {
    const chat = this.chat;
    setTimeout(() => {
      if (chat === this.chat && chat.draft?.ended) this.refresh();
    }, ANSWER_EXPECTED_MS);
  }

  show() {
    const unsent = this.unsent.in(this.chat.id);
    this.timeline.show(this.chat, unsent);
    byId("empty").hidden = !this.chat.isEmpty || unsent.length > 0 || (!this.chat.loaded && !isFresh(this.chat.id));
    this.composer.setBusy(this.chat.isBusy);
    this.showTitle();
  }

  showTitle() {
    const listed = this.sidebar.chats.find((chat) => chat.id === this.chat?.id);
    this.panels.setTitle(listed?.title || this.chat?.title || "");
  }

  // Connection and login

  async handleConnected() {
    this.panels.setOffline(false);
    this.unsent.restart();
    this.refresh();
    this.sidebar.fetch();
    this.approvals.fetch();
    try {
      const about = await get("/api/about");
      this.composer.attachments.maxBytes = about.max_file_bytes;
      this.composer.menu.commands = about.commands;
      this.panels.setAbout(about);
    } catch (problem) {
      this.showProblem(problem);
    }
  }

  handleLost() {
    this.panels.setOffline(true);
    this.chat?.invalidate();
    this.checkLogin();
  }

  /** Find out whether the cookie is still valid: a WebSocket cannot say why it was refused. */
  async checkLogin() {
    try {
      await get("/api/about");
    } catch {
      return; // offline, or locked, which has its own screen
    }
    if (!this.locked) return;
    this.locked = false;
    this.panels.setLocked(false);
    this.connection.resume();
  }

  lock() {
    if (this.locked) return;
    this.locked = true;
    this.composer.saveDraft();
    this.connection.pause();
    this.panels.setLocked(true);
  }

  showProblem(problem) {
    if (!this.locked && this.connection.isOpen) this.panels.toast(problem.problem ?? problem.message ?? problem);
  }
}

/** Return the chat to which nothing was sent yet, so that "New chat" finds the draft that was begun there. */
function freshChat() {
  const fresh = load("fresh") ?? newChatId();
  save("fresh", fresh);
  return fresh;
}

const isFresh = (id) => load("fresh") === id;

new App().start();
