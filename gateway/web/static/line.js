// The WebSocket to the gateway: comes back by itself, calmly, and says whether it is there.

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 10_000;

export class Line {
  /** `onOpen`, `onAway` and `onEvent` are called as things happen. */
  constructor({ onOpen, onAway, onEvent }) {
    Object.assign(this, { onOpen, onAway, onEvent });
    this.socket = null;
    this.failures = 0;
    this.timer = 0;
    this.paused = false;
    window.addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  connect() {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(`${scheme}//${location.host}/ws`));
    socket.addEventListener("open", () => {
      this.failures = 0;
      this.onOpen();
    });
    socket.addEventListener("message", (event) => this.onEvent(JSON.parse(event.data)));
    socket.addEventListener("close", () => socket === this.socket && this.lost());
  }

  lost() {
    this.socket = null;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.failures++);
    this.timer = setTimeout(() => this.connect(), wait * (0.75 + Math.random() / 2));
    this.onAway();
  }

  /** Somebody is looking, or the network came back: no need to wait any longer. */
  hurry() {
    if (!this.socket && !this.paused) this.connect();
  }

  /** Stays away, whoever looks, until it is resumed. */
  pause() {
    this.paused = true;
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  resume() {
    this.paused = false;
    this.hurry();
  }

  send(value) {
    if (!this.isOpen) return false;
    this.socket.send(JSON.stringify(value));
    return true;
  }
}
