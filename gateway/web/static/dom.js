// Builds elements. Text is always set as text, so nothing in a message can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** Create an element: functions named `on…` become listeners, everything else an attribute; false leaves it out. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  return fill(element, children);
}

/** Append children one by one: a long answer has more nodes than a call may have arguments. */
export function fill(element, children) {
  for (const child of children) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

export const byId = (id) => document.getElementById(id);

const ICONS = {
  check: "M5 12.5 10 17.5 19.5 7",
  close: "M6 6 18 18M18 6 6 18",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  wing: "M3.5 19.2C4 10.5 10 4.5 21.5 4c-.4 3.6-2.6 6-6.5 6.8h4.6c-1 2.7-3.2 4.4-6.6 4.8h3.6c-1.8 3-6.5 4.4-13.1 3.6z",
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

/** Build a button that copies what `read` returns and confirms it for a moment. */
export function copyButton(read, label) {
  const word = el("span", {}, "Copy");
  const button = el("button", { type: "button", class: "copy", "aria-label": label }, icon("copy"), word);
  button.addEventListener("click", async () => {
    word.textContent = (await copy(read())) ? "Copied" : "Select the text to copy it";
    button.classList.add("copied");
    setTimeout(() => {
      word.textContent = "Copy";
      button.classList.remove("copied");
    }, 1600);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed, or the page has no focus
  }
}

/** Return a function that calls `run` once it was not called for a while. */
export function debounce(run, milliseconds) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), milliseconds);
  };
}
