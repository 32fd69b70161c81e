// Files on their way into a message: uploaded at once, shown with their progress, kept per chat until sent.

import { upload } from "./api.js";
import { byId, el, icon } from "./dom.js";
import { isPicture, kindOf, sizeText } from "./files.js";

const MAX_FILES = 10;
const TOO_MANY = `You can attach up to ${MAX_FILES} files.`;

const uploaded = (file) => ({ ...file, state: "ready" });

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

  get ready() {
    return this.files.filter((file) => file.file);
  }

  get isUploading() {
    return this.files.some((file) => file.state === "uploading");
  }

  get hasFailed() {
    return this.files.some((file) => file.state === "failed");
  }

  /** `kept`: what an earlier visit had uploaded. */
  open(chat, kept) {
    this.chat = chat;
    if (!this.byChat.has(chat)) this.byChat.set(chat, kept.map(uploaded));
    this.show();
  }

  /** Files of a message that was taken back: all of them, or false. */
  restore(files) {
    if (files.length && this.files.length + files.length > MAX_FILES) {
      this.onProblem(TOO_MANY);
      return false;
    }
    this.files.push(...files.map(uploaded));
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
      this.begin(file);
    }
    this.show();
  }

  async begin(file) {
    if (file.size > this.maxBytes || !file.size) {
      Object.assign(file, {
        state: "failed",
        problem: file.size ? `Larger than ${sizeText(this.maxBytes)}.` : "The file is empty.",
        final: true,
      });
      return;
    }
    Object.assign(file, { state: "uploading", progress: 0, problem: "" });
    const sending = upload(file.blob, (share) => {
      file.progress = share;
      file.bar?.style.setProperty("--done", share);
    });
    file.cancel = sending.cancel;
    try {
      const { file: reference, name, mime, size } = await sending.done;
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
      this.files.filter((one) => one !== file),
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
    this.tray.replaceChildren(...this.files.map((file) => this.chip(file)));
  }

  chip(file) {
    const about = {
      uploading: "Uploading…",
      ready: [kindOf(file), sizeText(file.size)].filter(Boolean).join(" · "),
      failed: file.problem,
    }[file.state];
    file.bar = el("span", { class: "progress", "aria-hidden": "true" });
    file.bar.style.setProperty("--done", file.progress ?? 0);
    return el(
      "li",
      { class: `chip ${file.state}` },
      file.preview ? el("img", { src: file.preview, alt: "" }) : icon("file"),
      el(
        "span",
        { class: "file-text" },
        el("span", { class: "file-name", title: file.name }, el("bdi", {}, file.name)),
        el("span", { class: "file-about", role: file.state === "failed" ? "alert" : undefined }, about),
      ),
      file.state === "failed" &&
        !file.final &&
        el(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-label": `Upload ${file.name} again`,
            onclick: () => (this.begin(file), this.show(), this.onChange()),
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
