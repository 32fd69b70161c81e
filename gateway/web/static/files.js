// Shows files of a conversation: pictures that enlarge on a click, everything else as a card to download.

import { byId, el, icon } from "./dom.js";

const MEDIA_PATH = /^\/media\/[0-9a-f]{64}(?:\?[\w%=&.~-]*)?$/;
// Formats that cannot contain scripts.
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

export const isPicture = (mime) => PICTURES.has(String(mime).split(";")[0].trim().toLowerCase());

/** Return the path of a file stored by the gateway, or null for any other address. */
export function mediaPath(target) {
  return typeof target === "string" && MEDIA_PATH.test(target) ? target : null;
}

export function filesView(files) {
  if (!files?.length) return null;
  return el("div", { class: "files" }, ...files.map(fileView));
}

function fileView(file) {
  const url = mediaPath(file.url);
  return url && !file.problem && isPicture(file.mime) ? picture(url, file.name) : fileCard(file, url);
}

/** Show a stored file as a picture. */
export function picture(url, name) {
  const image = el("img", { src: url, alt: name || "Picture", loading: "lazy", decoding: "async" });
  image.addEventListener("error", () =>
    button.replaceWith(
      fileCard({ name: name || "Picture", mime: "", size: 0, problem: "This picture cannot be shown." }, url),
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
  const text = fileText(file, file.problem || describeFile(file));
  const properties = { class: file.problem ? "file has-problem" : "file", title: file.name || undefined };
  if (!url || file.problem) return el("span", properties, icon("file"), text);
  return el("a", { ...properties, href: url, download: file.name || true }, icon("file"), text, icon("download"));
}

/** Show a file's name and a line about it. */
export function fileText(file, about, role) {
  return el(
    "span",
    { class: "file-text" },
    el("span", { class: "file-name", title: file.name }, el("bdi", {}, file.name || "File")),
    el("span", { class: "file-about", role }, about),
  );
}

export const describeFile = (file) => [kindOf(file), formatSize(file.size)].filter(Boolean).join(" · ");

export function formatSize(bytes) {
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

function kindOf({ name, mime }) {
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
    if (!event.target.closest("a, button")) dialog.close();
  });
  dialog.addEventListener("close", () => byId("viewer-image").removeAttribute("src"));
}
