// The message box: grows with its text, keeps a draft per chat, takes files by button, paste and drop.

import { Attachments } from "./attachments.js";
import { CommandMenu } from "./commands.js";
import { byId, debounce } from "./dom.js";
import { forget, load, save } from "./storage.js";

const UPLOADING = "Will be sent when the files are uploaded.";
const FILE_FAILED = "A file could not be uploaded. Try again or remove it.";

export class Composer {
  constructor({ onSend, onStop, onProblem }) {
    this.onSend = onSend;
    this.chat = "";
    this.sendsWhenUploaded = false;
    this.isBlocked = false; // the user pressed Enter, but a file could not be uploaded
    this.box = byId("message");
    this.hint = byId("hint");
    this.attachments = new Attachments({ onProblem, onChange: () => this.handleUpload() });
    this.menu = new CommandMenu(this.box, () => this.update());
    this.saveSoon = debounce(() => this.saveDraft(), 250);
    this.box.addEventListener("input", () => {
      this.menu.update();
      this.update();
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
      event.target.value = ""; // so that the same file can be chosen again
      this.update();
    });
    window.addEventListener("pagehide", () => this.saveDraft());
    this.acceptDrops();
  }

  open(chat) {
    if (this.chat) this.saveDraft();
    this.chat = chat;
    this.sendsWhenUploaded = this.isBlocked = false;
    const draft = load(`draft.${chat}`) ?? { text: "", files: [] };
    this.box.value = draft.text;
    this.menu.close();
    this.attachments.open(chat, draft.files);
    this.update();
  }

  setBusy(busy) {
    byId("stop").hidden = !busy;
  }

  /** Append a message that was taken back. Return false if there is no room for its files. */
  restore({ text, files }) {
    if (!this.attachments.restore(files)) return false;
    this.sendsWhenUploaded = false; // the user has not seen what would be sent now
    this.box.value = [this.box.value.trimEnd(), text].filter(Boolean).join("\n");
    this.saveDraft();
    this.update();
    this.box.focus();
    return true;
  }

  saveDraft() {
    const text = this.box.value;
    const files = this.attachments.ready;
    if (text || files.length) save(`draft.${this.chat}`, { text, files });
    else forget(`draft.${this.chat}`);
  }

  discard() {
    this.box.value = "";
    this.menu.close();
    this.attachments.clear();
    this.saveDraft();
    this.update();
  }

  send() {
    const text = this.box.value.trim();
    this.isBlocked = this.attachments.hasFailed;
    this.sendsWhenUploaded = !this.isBlocked && this.attachments.isUploading;
    if (this.isBlocked || this.sendsWhenUploaded) {
      this.update();
      return;
    }
    const files = this.attachments.ready;
    if (!text && !files.length) return;
    this.discard();
    this.onSend(text, files);
  }

  handleUpload() {
    if (this.sendsWhenUploaded && (this.attachments.hasFailed || !this.attachments.isUploading)) this.send();
    this.update();
  }

  update() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight, window.innerHeight * 0.4)}px`;
    byId("send").disabled = !this.box.value.trim() && !this.attachments.files.some((file) => file.state !== "failed");
    this.isBlocked &&= this.attachments.hasFailed;
    this.showHint(this.isBlocked ? FILE_FAILED : this.sendsWhenUploaded ? UPLOADING : "");
    this.saveSoon();
  }

  showHint(text) {
    this.hint.classList.toggle("problem", this.isBlocked);
    if (this.hint.textContent !== text) this.hint.textContent = text; // announced once, not with every key
  }

  onKey(event) {
    if (event.isComposing) return; // Enter chooses a word of the input method (Japanese, Chinese, …)
    if (this.menu.handleKey(event)) {
      event.preventDefault();
      event.stopPropagation(); // Escape closes the menu without stopping the answer
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
    this.update();
  }

  acceptDrops() {
    const zone = byId("main");
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    let depth = 0; // a child is entered before its parent is left
    const enter = (change) => zone.classList.toggle("dropping", (depth = Math.max(0, depth + change)) > 0);
    zone.addEventListener("dragenter", (event) => hasFiles(event) && enter(1));
    zone.addEventListener("dragleave", (event) => hasFiles(event) && enter(-1));
    // On the window: a file dropped beside the zone must not replace the page.
    window.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    window.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = 0;
      zone.classList.remove("dropping");
      this.attachments.add(event.dataTransfer.files);
      this.update();
      this.box.focus();
    });
  }
}
