// Files in a conversation: pictures that enlarge on a click, everything else as a card to download.

import { byId, el, icon } from "./dom.js";
import { ownMedia } from "./links.js";

// Pictures the browser draws without running anything in them.
const DRAWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

export const isPicture = (mime) => DRAWN.has(String(mime).split(";")[0].trim().toLowerCase());

export function fileView(file) {
  const url = ownMedia(file.url);
  return url && !file.problem && isPicture(file.mime) ? picture(url, file.name) : fileCard(file, url);
}

/** `url` is one of ours: a stored file, or a blob that this page made. */
export function picture(url, name) {
  const image = el("img", { src: url, alt: name || "Picture", loading: "lazy", decoding: "async" });
  image.addEventListener("error", () =>
    button.replaceWith(
      fileCard({ name: name || "Picture", mime: "", size: 0, problem: "The picture cannot be shown." }, url),
    ),
  );
  const button = el(
    "button",
    {
      type: "button",
      class: "picture",
      title: name || "Picture",
      "aria-label": `Enlarge ${name || "picture"}`,
      onclick: () => enlarge(url, name),
    },
    image,
  );
  return button;
}

function fileCard(file, url) {
  const about = file.problem || [kindOf(file), sizeText(file.size)].filter(Boolean).join(" · ");
  const text = el(
    "span",
    { class: "file-text" },
    el("span", { class: "file-name" }, el("bdi", {}, file.name || "File")),
    el("span", { class: "file-about" }, about),
  );
  const properties = { class: file.problem ? "file has-problem" : "file", title: file.name || undefined };
  if (!url || file.problem) return el("span", properties, icon("file"), text);
  return el("a", { ...properties, href: url, download: file.name || true }, icon("file"), text, icon("download"));
}

export function sizeText(bytes) {
  if (!bytes) return "";
  if (bytes < 1000) return `${bytes} bytes`;
  const units = ["kB", "MB", "GB"];
  let size = bytes / 1000;
  while (size >= 1000 && units.length > 1) {
    size /= 1000;
    units.shift();
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[0]}`;
}

export function kindOf({ name, mime }) {
  const ending = /\.([A-Za-z0-9]{1,6})$/.exec(name ?? "");
  return ending
    ? ending[1].toUpperCase()
    : String(mime ?? "")
        .split("/")
        .pop()
        .slice(0, 20);
}

function enlarge(url, name) {
  const dialog = byId("viewer");
  byId("viewer-image").src = url;
  byId("viewer-image").alt = name || "Picture";
  byId("viewer-name").textContent = name || "Picture";
  byId("viewer-download").href = url;
  byId("viewer-download").download = name || "picture";
  dialog.showModal();
}

export function setUpViewer() {
  const dialog = byId("viewer");
  dialog.addEventListener("click", (event) => {
    if (!event.target.closest("a, button")) dialog.close(); // anywhere closes, as people expect
  });
  dialog.addEventListener("close", () => byId("viewer-image").removeAttribute("src"));
}
