// Where a message is written: grows with it, keeps it per chat, takes files by button, paste and drop.

import { Attachments } from "./attachments.js";
import { CommandMenu } from "./commands.js";
import { byId, debounce } from "./dom.js";
import { forget, load, save } from "./storage.js";

const UPLOADING = "Will be sent when the files are uploaded.";
const HELD_BACK = "A file could not be uploaded. Try again or remove it.";

export class Composer {
  constructor({ onSend, onStop, onProblem }) {
    this.onSend = onSend;
    this.chat = "";
    this.sendsWhenUploaded = false;
    this.heldBack = false; // was to be sent, but a file is missing
    this.box = byId("message");
    this.hint = byId("hint");
    this.attachments = new Attachments({ onProblem, onChange: () => this.filesChanged() });
    this.menu = new CommandMenu(this.box, () => this.changed());
    this.keepSoon = debounce(() => this.keep(), 250);
    this.box.addEventListener("input", () => {
      this.menu.update();
      this.changed();
    });
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    this.box.addEventListener("paste", (event) => this.onPaste(event));
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    byId("stop").addEventListener("click", onStop);
    byId("attach").addEventListener("click", () => byId("picker").click());
    byId("picker").addEventListener("change", (event) => {
      this.attachments.add(event.target.files);
      event.target.value = ""; // the same file can be chosen again
      this.changed();
    });
    window.addEventListener("pagehide", () => this.keep());
    this.acceptDrops();
  }

  open(chat) {
    if (this.chat) this.keep();
    this.chat = chat;
    this.sendsWhenUploaded = this.heldBack = false;
    const draft = load(`draft.${chat}`) ?? { text: "", files: [] };
    this.box.value = draft.text;
    this.menu.close();
    this.attachments.open(chat, draft.files);
    this.changed();
  }

  setBusy(busy) {
    byId("stop").hidden = !busy;
  }

  /** A message that was taken back joins what is here. False when there is no room for its files. */
  restore({ text, files }) {
    if (!this.attachments.restore(files)) return false;
    this.sendsWhenUploaded = false; // that was said of less than is here now
    this.box.value = [this.box.value.trimEnd(), text].filter(Boolean).join("\n");
    this.keep();
    this.changed();
    this.box.focus();
    return true;
  }

  keep() {
    const text = this.box.value;
    const files = this.attachments.ready.map(({ file, name, mime, size }) => ({ file, name, mime, size }));
    if (text || files.length) save(`draft.${this.chat}`, { text, files });
    else forget(`draft.${this.chat}`);
  }

  /** Drops what is written here. */
  discard() {
    this.box.value = "";
    this.menu.close();
    this.attachments.clear();
    this.keep();
    this.changed();
  }

  send() {
    const text = this.box.value.trim();
    this.heldBack = this.attachments.hasFailed;
    this.sendsWhenUploaded = !this.heldBack && this.attachments.isUploading;
    if (this.heldBack || this.sendsWhenUploaded) {
      this.changed();
      return;
    }
    const files = this.attachments.ready.map(({ file, name, mime, size }) => ({ file, name, mime, size }));
    if (!text && !files.length) return;
    this.discard();
    this.onSend(text, files);
  }

  filesChanged() {
    if (this.sendsWhenUploaded && (this.attachments.hasFailed || !this.attachments.isUploading)) this.send();
    this.changed();
  }

  changed() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight, window.innerHeight * 0.4)}px`;
    byId("send").disabled = !this.box.value.trim() && !this.attachments.files.some((file) => file.state !== "failed");
    this.heldBack &&= this.attachments.hasFailed;
    this.showHint(this.heldBack ? HELD_BACK : this.sendsWhenUploaded ? UPLOADING : "");
    this.keepSoon();
  }

  showHint(words) {
    this.hint.classList.toggle("problem", this.heldBack);
    if (this.hint.textContent !== words) this.hint.textContent = words; // said once, not with every key
  }

  onKey(event) {
    if (event.isComposing) return; // Enter chooses the word that is being composed (Japanese, Chinese, …)
    if (this.menu.takeKey(event)) {
      event.preventDefault();
      event.stopPropagation(); // Escape closes the menu, and does not stop the answer
      return;
    }
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.send();
  }

  onPaste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attachments.add(files);
    this.changed();
  }

  acceptDrops() {
    const zone = byId("main");
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    let depth = 0; // entering a child comes before leaving its parent
    const over = (change) => zone.classList.toggle("dropping", (depth = Math.max(0, depth + change)) > 0);
    zone.addEventListener("dragenter", (event) => hasFiles(event) && over(1));
    zone.addEventListener("dragleave", (event) => hasFiles(event) && over(-1));
    // Everywhere: a file dropped beside the page must not replace it.
    window.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    window.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = 0;
      zone.classList.remove("dropping");
      this.attachments.add(event.dataTransfer.files);
      this.changed();
      this.box.focus();
    });
  }
}
