// Messages that the gateway has not taken yet: kept over a reload, sent again under the same id until it has.

import { forget, keysUnder, load, save } from "./storage.js";

const PREFIX = "unsent."; // a key for each message: two tabs never overwrite each other's
const AGAIN_MS = 2_000;

export class Unsent {
  constructor(line, onChange) {
    this.line = line;
    this.onChange = onChange;
    this.onTheWay = new Set();
    this.timer = 0;
  }

  of(chat) {
    return this.all().filter((message) => message.chat === chat);
  }

  all() {
    const messages = keysUnder(PREFIX)
      .map(load)
      .filter((message) => message?.id && message.chat);
    return messages.sort((one, other) => one.at_ms - other.at_ms);
  }

  add({ chat, text, files }) {
    const message = { id: newId(), chat, text, files, at_ms: Date.now(), problem: "", refused: false };
    save(PREFIX + message.id, message);
    this.onChange(chat);
    this.flush();
  }

  /** After a reconnect nothing is known about what was on the way. */
  reconnected() {
    this.onTheWay.clear();
    this.flush();
  }

  /** One message of a chat at a time: the next could be taken while the first is put off, and overtake it. */
  flush() {
    clearTimeout(this.timer);
    const waiting = new Set();
    for (const message of this.all()) {
      if (message.refused || waiting.has(message.chat)) continue;
      waiting.add(message.chat);
      if (this.onTheWay.has(message.id)) continue;
      const files = message.files.map((file) => file.file);
      if (this.line.send({ type: "send", id: message.id, chat: message.chat, text: message.text, files }))
        this.onTheWay.add(message.id);
    }
  }

  taken(id) {
    this.onTheWay.delete(id);
    const message = load(PREFIX + id);
    forget(PREFIX + id);
    if (message) this.onChange(message.chat);
    this.flush(); // even if another tab was quicker to forget it: the next may wait here
  }

  later(id, problem) {
    this.onTheWay.delete(id);
    this.note(id, { problem });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), AGAIN_MS);
  }

  refuse(id, problem) {
    this.onTheWay.delete(id);
    this.note(id, { problem, refused: true });
    this.flush();
  }

  again(id) {
    this.note(id, { problem: "", refused: false });
    this.flush();
  }

  drop(chat) {
    for (const { id } of this.of(chat)) this.taken(id);
  }

  note(id, news) {
    const message = load(PREFIX + id);
    if (!message) return;
    save(PREFIX + id, { ...message, ...news });
    this.onChange(message.chat);
  }
}

export function newId() {
  return hex(crypto.getRandomValues(new Uint8Array(16))).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export const newChatId = () => hex(crypto.getRandomValues(new Uint8Array(8)));

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
