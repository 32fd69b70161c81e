// Requests to the playground, and the socket on which it tells what happens.

import { toast } from "./dom.js";

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 5_000;

/** Gives the answer, or null after a problem, which is shown. */
export async function post(path, body, headers = { "Content-Type": "application/json" }) {
  try {
    const isBytes = body instanceof Blob;
    const answer = await fetch(path, { method: "POST", headers, body: isBytes ? body : JSON.stringify(body ?? {}) });
    const told = await answer.json().catch(() => ({ problem: `The playground answered with ${answer.status}.` }));
    if (answer.ok) return told;
    toast(told.problem ?? "The request failed.");
  } catch {
    toast("The playground does not answer.");
  }
  return null;
}

export const sendFile = (platform, about, blob) =>
  post(`/api/phones/${platform}/file?${new URLSearchParams(about)}`, blob, {
    "Content-Type": blob.type || "application/octet-stream",
  });

export class Live {
  constructor({ onNews, onAway, onOpen }) {
    Object.assign(this, { onNews, onAway, onOpen });
    this.failures = 0;
    this.connect();
  }

  connect() {
    const socket = (this.socket = new WebSocket(`ws://${location.host}/live`));
    socket.addEventListener("open", () => {
      this.failures = 0;
      this.onOpen();
    });
    socket.addEventListener("message", (event) => this.onNews(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      this.onAway();
      setTimeout(() => this.connect(), Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.failures++));
    });
  }

  send(value) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(value));
  }
}
