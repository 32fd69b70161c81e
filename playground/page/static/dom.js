// Builds elements from plain values; text is always set as text, so nothing that was typed can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** `on…` properties are listeners, true and false switch an attribute, everything else is one. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

export const byId = (id) => document.getElementById(id);

const ICONS = {
  back: "M15 5l-7 7 7 7",
  clip: "M20 11.5 12 19.5a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7L10 17a1.7 1.7 0 0 1-2.4-2.4L15 7",
  close: "M6 6 18 18M18 6 6 18",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  play: "M8 5v14l11-7z",
  plus: "M12 5v14M5 12h14",
  send: "M4 12l16-7-5 15-3.5-6z",
  up: "M12 19V5M6 11l6-6 6 6",
  voice: "M12 4a2.5 2.5 0 0 0-2.5 2.5v5a2.5 2.5 0 0 0 5 0v-5A2.5 2.5 0 0 0 12 4zM6.5 11.5a5.5 5.5 0 0 0 11 0M12 17v3",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

export const iconButton = (name, label, properties = {}) =>
  el("button", { type: "button", "aria-label": label, title: label, ...properties }, icon(name));

let toastTimer;

export function toast(text) {
  const box = byId("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (box.hidden = true), 6000);
}

/** Asks for a short text; gives null when it was not given. */
export function ask(question, suggestion = "") {
  const dialog = byId("ask");
  const input = byId("ask-text");
  byId("ask-title").textContent = question;
  input.value = suggestion;
  dialog.returnValue = "";
  dialog.showModal();
  input.select();
  return new Promise((resolve) => {
    dialog.querySelector("form").onsubmit = () => (dialog.returnValue = "given");
    dialog.onclose = () => resolve(dialog.returnValue === "given" ? input.value.trim() || null : null);
  });
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
export const timeOfDay = (ms) => clock.format(ms);

export function sizeOf(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1000)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
