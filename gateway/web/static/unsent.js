// Messages that the gateway has not accepted yet. They survive a reload and are sent again under the same id until then.

import { forget, keysUnder, load, save } from "./storage.js";

const PREFIX = "unsent."; // one key per message, so that two tabs never overwrite each other's
const RETRY_MS = 2_000;

export class Unsent {
  constructor(connection, onChange) {
    this.connection = connection;
    this.onChange = onChange;
    this.inFlight = new Set();
    this.timer = 0;
  }

  /** Return the messages of a chat, oldest first. */
  in(chat) {
    return this.all().filter((message) => message.chat === chat);
  }

  all() {
    const messages = keysUnder(PREFIX)
      .map(load)
      .filter((message) => message?.id && message.chat);
    return messages.sort((a, b) => a.at_ms - b.at_ms);
  }

  add({ chat, text, files }) {
    const message = { id: newId(), chat, text, files, at_ms: Date.now(), problem: "", refused: false };
    save(PREFIX + message.id, message);
    this.onChange(chat);
    this.flush();
  }

  /** Send everything again: after a reconnect, nobody knows what arrived. */
  restart() {
    this.inFlight.clear();
    this.flush();
  }

  /** Send one message per chat at a time: if the first is deferred, a second one would overtake it. */
  flush() {
    clearTimeout(this.timer);
    const waiting = new Set();
    for (const message of this.all()) {
      if (message.refused || waiting.has(message.chat)) continue;
      waiting.add(message.chat);
      if (this.inFlight.has(message.id)) continue;
      const files = message.files.map((file) => file.file);
      if (this.connection.send({ type: "send", id: message.id, chat: message.chat, text: message.text, files }))
        this.inFlight.add(message.id);
    }
  }

  /** Remove a message that was accepted or taken back, and send the next. */
  remove(id) {
    this.inFlight.delete(id);
    const message = load(PREFIX + id);
    forget(PREFIX + id);
    if (message) this.onChange(message.chat);
    this.flush(); // even if another tab removed it first: the next may wait in this one
  }

  /** Try again in a while. */
  defer(id, problem) {
    this.update(id, { problem });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), RETRY_MS);
  }

  /** Do not send it again until the user says so. */
  refuse(id, problem) {
    this.update(id, { problem, refused: true });
    this.flush();
  }

  retry(id) {
    this.update(id, { problem: "", refused: false });
    this.flush();
  }

  removeAll(chat) {
    for (const { id } of this.in(chat)) this.remove(id);
  }

  update(id, changes) {
    this.inFlight.delete(id);
    const message = load(PREFIX + id);
    if (!message) return;
    save(PREFIX + id, { ...message, ...changes });
    this.onChange(message.chat);
  }
}

export function newId() {
  return toHex(crypto.getRandomValues(new Uint8Array(16))).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export const newChatId = () => toHex(crypto.getRandomValues(new Uint8Array(8)));

const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
