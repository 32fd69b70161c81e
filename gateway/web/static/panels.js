// Everything around the conversation: drawer, title, theme, offline banner, toasts, help, login screen, shortcuts.

import { byId } from "./dom.js";

const OFFLINE_AFTER_MS = 800; // a short interruption needs no banner
const TOAST_MS = 6_000;
const NARROW = window.matchMedia("(max-width: 820px)");

export class Panels {
  constructor({ onNew, onStop, onUnlock }) {
    this.onNew = onNew;
    this.onStop = onStop;
    this.onUnlock = onUnlock;
    this.title = "";
    this.hasUnread = false;
    byId("new").addEventListener("click", onNew);
    byId("new-bar").addEventListener("click", onNew);
    byId("menu").addEventListener("click", () => this.setDrawer(true));
    byId("veil").addEventListener("click", () => this.closeDrawer());
    byId("side-close").addEventListener("click", () => this.closeDrawer());
    byId("help-open").addEventListener("click", () => byId("help").showModal());
    byId("skip").addEventListener("click", () => byId("message").focus());
    byId("theme").addEventListener("click", () => this.showTheme(window.hermesTheme.next()));
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    }
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("visibilitychange", () => document.hidden || this.setUnread(false));
    window.addEventListener("focus", () => byId("locked").hidden || this.onUnlock());
    NARROW.addEventListener("change", () => this.setDrawer(false));
    this.showTheme(window.hermesTheme.current());
    this.setDrawer(false);
  }

  // Shortcuts

  onKey(event) {
    if (event.isComposing) return; // the key belongs to the input method
    const isCommand = event.ctrlKey || event.metaKey;
    const isWriting = event.target.closest?.("input, textarea");
    if (isCommand && !event.shiftKey && event.key.toLowerCase() === "k") this.focusSearch(event);
    else if (isCommand && event.shiftKey && event.key.toLowerCase() === "o") {
      event.preventDefault();
      this.onNew();
    } else if (event.key === "?" && !isWriting && !isCommand) byId("help").showModal();
    else if (event.key === "Escape") this.escape();
  }

  focusSearch(event) {
    event.preventDefault();
    this.setDrawer(true);
    byId("search").focus();
    byId("search").select();
  }

  escape() {
    if (document.querySelector("dialog[open], :popover-open")) return;
    if (document.body.classList.contains("drawer")) this.closeDrawer();
    else this.onStop();
  }

  // Drawer

  setDrawer(open) {
    const narrow = NARROW.matches;
    document.body.classList.toggle("drawer", narrow && open);
    byId("side").inert = narrow && !open;
    byId("main").inert = narrow && open;
    byId("menu").setAttribute("aria-expanded", String(narrow && open));
    if (narrow && open) byId("side-close").focus();
  }

  closeDrawer() {
    const wasOpen = document.body.classList.contains("drawer");
    this.setDrawer(false);
    if (wasOpen) byId("menu").focus();
  }

  /** Focus the message box, except on a touch screen, where the keyboard would open. */
  focusComposer() {
    if (!window.matchMedia("(pointer: coarse)").matches) byId("message").focus({ preventScroll: true });
  }

  // Title, model and theme

  setTitle(title) {
    this.title = title;
    byId("title").textContent = title || "New chat";
    this.showTitle();
  }

  showTitle() {
    document.title = `${this.hasUnread ? "• " : ""}${this.title ? `${this.title} – Hermes` : "Hermes"}`;
  }

  noteAnswer() {
    this.setUnread(document.hidden);
  }

  setUnread(unread) {
    this.hasUnread = unread;
    this.showTitle();
  }

  setAbout({ version, model }) {
    byId("about").textContent = `${model} · ${version}`;
    byId("demo").hidden = model !== "demo";
  }

  showTheme(theme) {
    const name = { system: "Auto", light: "Light", dark: "Dark" }[theme];
    byId("theme-name").textContent = name;
    byId("theme").setAttribute("aria-label", `Theme: ${name}. Change`);
  }

  // State

  setOffline(offline) {
    clearTimeout(this.offlineTimer);
    if (offline) this.offlineTimer = setTimeout(() => (byId("offline").hidden = false), OFFLINE_AFTER_MS);
    else byId("offline").hidden = true;
  }

  setLocked(locked) {
    byId("locked").hidden = !locked;
    byId("app").hidden = locked;
    if (locked) byId("locked").focus();
  }

  toast(text) {
    byId("toast").textContent = text;
    byId("toast").hidden = false;
    clearTimeout(this.toastTimer);
    this.toastTimer = setTimeout(() => (byId("toast").hidden = true), TOAST_MS);
  }
}
