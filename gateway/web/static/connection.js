// The WebSocket to the gateway. Reconnects by itself, with growing pauses.

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 10_000;

export class Connection {
  constructor({ onOpen, onLost, onEvent }) {
    Object.assign(this, { onOpen, onLost, onEvent });
    this.socket = null;
    this.failures = 0;
    this.timer = 0;
    this.paused = false;
    window.addEventListener("online", () => this.reconnectNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.reconnectNow());
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
    socket.addEventListener("close", () => socket === this.socket && this.handleClose());
  }

  handleClose() {
    this.socket = null;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.failures++);
    this.timer = setTimeout(() => this.connect(), wait * (0.75 + Math.random() / 2));
    this.onLost();
  }

  /** Skip the pause: the user is looking, or the network is back. */
  reconnectNow() {
    if (!this.socket && !this.paused) this.connect();
  }

  /** Close, and stay closed until `resume`. */
  pause() {
    this.paused = true;
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  resume() {
    this.paused = false;
    this.reconnectNow();
  }

  /** Return false if the connection is not open and nothing was sent. */
  send(value) {
    if (!this.isOpen) return false;
    this.socket.send(JSON.stringify(value));
    return true;
  }
}
