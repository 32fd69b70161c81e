// Files of the message being written: uploaded at once, with progress, and kept per chat until it is sent.

import { upload } from "./api.js";
import { byId, el, icon } from "./dom.js";
import { describeFile, fileText, formatSize, isPicture } from "./files.js";

const MAX_FILES = 10;
const TOO_MANY = `You can attach up to ${MAX_FILES} files.`;

const toReady = (file) => ({ ...file, state: "ready" });

export class Attachments {
  constructor({ onChange, onProblem }) {
    this.onChange = onChange;
    this.onProblem = onProblem;
    this.maxBytes = 20_000_000;
    this.chat = "";
    this.byChat = new Map();
    this.tray = byId("tray");
  }

  get files() {
    if (!this.byChat.has(this.chat)) this.byChat.set(this.chat, []);
    return this.byChat.get(this.chat);
  }

  /** The uploaded files, as a message refers to them. */
  get ready() {
    const ready = this.files.filter((file) => file.file);
    return ready.map(({ file, name, mime, size }) => ({ file, name, mime, size }));
  }

  get isUploading() {
    return this.files.some((file) => file.state === "uploading");
  }

  get hasFailed() {
    return this.files.some((file) => file.state === "failed");
  }

  /** Show the files of a chat. `saved`: those that an earlier visit had uploaded. */
  open(chat, saved) {
    this.chat = chat;
    if (!this.byChat.has(chat)) this.byChat.set(chat, saved.map(toReady));
    this.show();
  }

  /** Add the files of a message that was taken back. Return false if there is no room for all of them. */
  restore(files) {
    if (files.length && this.files.length + files.length > MAX_FILES) {
      this.onProblem(TOO_MANY);
      return false;
    }
    this.files.push(...files.map(toReady));
    this.show();
    return true;
  }

  add(blobs) {
    for (const blob of blobs) {
      if (this.files.length >= MAX_FILES) {
        this.onProblem(TOO_MANY);
        break;
      }
      const file = {
        name: blob.name || "pasted",
        mime: blob.type,
        size: blob.size,
        blob,
        state: "uploading",
        progress: 0,
        problem: "",
      };
      if (isPicture(blob.type)) file.preview = URL.createObjectURL(blob);
      this.files.push(file);
      this.upload(file);
    }
    this.show();
  }

  async upload(file) {
    if (file.size > this.maxBytes || !file.size) {
      Object.assign(file, {
        state: "failed",
        problem: file.size ? `Larger than ${formatSize(this.maxBytes)}.` : "The file is empty.",
        final: true,
      });
      return;
    }
    Object.assign(file, { state: "uploading", progress: 0, problem: "" });
    const uploading = upload(file.blob, (share) => {
      file.progress = share;
      file.bar?.style.setProperty("--done", share);
    });
    file.cancel = uploading.cancel;
    try {
      const { file: reference, name, mime, size } = await uploading.done;
      Object.assign(file, { file: reference, name, mime, size, state: "ready" });
    } catch (problem) {
      Object.assign(file, { state: "failed", problem: problem.message });
    }
    this.show();
    this.onChange();
  }

  remove(file) {
    if (file.state === "uploading") file.cancel?.();
    if (file.preview) URL.revokeObjectURL(file.preview);
    this.byChat.set(
      this.chat,
      this.files.filter((other) => other !== file),
    );
    this.show();
    this.onChange();
    byId("message").focus();
  }

  clear() {
    for (const file of this.files) if (file.preview) URL.revokeObjectURL(file.preview);
    this.byChat.set(this.chat, []);
    this.show();
  }

  show() {
    this.tray.hidden = !this.files.length;
    this.tray.replaceChildren(...this.files.map((file) => this.chipView(file)));
  }

  chipView(file) {
    const about = {
      uploading: "Uploading…",
      ready: describeFile(file),
      failed: file.problem,
    }[file.state];
    file.bar = el("span", { class: "progress", "aria-hidden": "true" });
    file.bar.style.setProperty("--done", file.progress ?? 0);
    return el(
      "li",
      { class: `chip ${file.state}` },
      file.preview ? el("img", { src: file.preview, alt: "" }) : icon("file"),
      fileText(file, about, file.state === "failed" ? "alert" : undefined),
      file.state === "failed" &&
        !file.final &&
        el(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-label": `Upload ${file.name} again`,
            onclick: () => (this.upload(file), this.show(), this.onChange()),
          },
          icon("retry"),
        ),
      el(
        "button",
        { type: "button", class: "quiet", "aria-label": `Remove ${file.name}`, onclick: () => this.remove(file) },
        icon("close"),
      ),
      file.state === "uploading" && file.bar,
    );
  }
}
