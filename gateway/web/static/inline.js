// Turns Markdown within a line into DOM nodes: emphasis, code, links and stored pictures. Anything else stays text.

import { el, fill } from "./dom.js";
import { mediaPath, picture } from "./files.js";

const SPECIAL = /[\\`*_~[\]!<&\n]|https?:\/\//g;
const DESTINATION =
  /\(\s{0,9}(?:<([^<>\n]{0,2000})>|([^\s()]{0,2000}(?:\([^\s()]{0,500}\)[^\s()]{0,500}){0,8}))(?:\s{1,9}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?\s{0,9}\)/y;
const AUTOLINK = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const BREAK = /<br\s{0,3}\/?>/iy;
const BARE = /https?:\/\/[^\s<>"`]{1,2000}/y;
const ENTITY = /&(amp|lt|gt|quot|nbsp|#39);/y;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0", "#39": "'" };
const PUNCTUATION = /[\p{P}\p{S}]/u;
const MAX_OPENERS_SEARCHED = 64; // keeps a text full of asterisks fast
const LINK_PROTOCOLS = new Set(["http:", "https:", "mailto:"]);

/** Return the nodes of a text. `open`: more is to come, so marks without an end are treated as closed. */
export function inline(text, open = false) {
  return new Scanner(text, open).nodes();
}

class Scanner {
  constructor(text, open) {
    this.text = text;
    this.open = open;
    this.at = 0;
    this.parts = []; // strings, nodes, and marks { mark, count, … } that may turn out to be emphasis or links
    this.brackets = []; // positions in parts
    this.unclosedTicks = new Set();
  }

  nodes() {
    const { text } = this;
    while (this.at < text.length) {
      SPECIAL.lastIndex = this.at;
      const found = SPECIAL.exec(text);
      const next = found ? found.index : text.length;
      if (next > this.at) this.parts.push(text.slice(this.at, next));
      this.at = next;
      if (found) this.scanSpecial(text[next]);
    }
    return emphasize(this.parts, this.open);
  }

  scanSpecial(character) {
    if (character === "\n") this.push(1, el("br"));
    else if (character === "\\") this.escape();
    else if (character === "`") this.code();
    else if (character === "[") this.openBracket(1, false);
    else if (character === "!") this.text[this.at + 1] === "[" ? this.openBracket(2, true) : this.push(1, "!");
    else if (character === "]") this.closeBracket();
    else if (character === "<") this.angle();
    else if (character === "&") this.entity();
    else if (character === "h") this.bareLink();
    else this.emphasisMark(character);
  }

  push(length, part) {
    this.at += length;
    this.parts.push(part);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === "\n") this.push(2, el("br"));
    else if (next && /[!-/:-@[-`{-~]/.test(next)) this.push(2, next);
    else this.push(1, "\\");
  }

  code() {
    const ticks = runLength(this.text, this.at);
    const from = this.at + ticks;
    const end = this.closingTicks(ticks, from);
    if (end >= 0) {
      this.parts.push(codeSpan(this.text.slice(from, end)));
      this.at = end + ticks;
    } else if (this.open) {
      this.parts.push(from < this.text.length ? codeSpan(this.text.slice(from)) : "");
      this.at = this.text.length;
    } else {
      this.push(ticks, "`".repeat(ticks));
    }
  }

  closingTicks(ticks, from) {
    if (this.unclosedTicks.has(ticks)) return -1;
    for (let at = this.text.indexOf("`", from); at >= 0; at = this.text.indexOf("`", at)) {
      const length = runLength(this.text, at);
      if (length === ticks) return at;
      at += length;
    }
    this.unclosedTicks.add(ticks);
    return -1;
  }

  openBracket(length, image) {
    this.brackets.push(this.parts.length);
    this.push(length, { mark: image ? "![" : "[", count: 1, image });
  }

  closeBracket() {
    const opener = this.brackets.pop();
    this.at += 1;
    if (opener === undefined) {
      this.parts.push("]");
      return;
    }
    const found = this.match(DESTINATION);
    const cutOff =
      !found && this.open && this.text[this.at] === "(" && !/\s/.test(this.text.slice(this.at, this.at + 2000));
    if (!found && !cutOff) {
      this.parts.push("]");
      return;
    }
    const { image } = this.parts[opener];
    const label = emphasize(this.parts.splice(opener).slice(1), false);
    this.at = found ? this.at + found[0].length : this.text.length;
    const target = found ? (found[1] ?? found[2]) : "";
    fill({ append: (node) => this.parts.push(node) }, found ? linkOrImage(target, label, image) : label);
    if (!image) this.brackets.length = 0; // no link within a link
  }

  angle() {
    const link = this.match(AUTOLINK);
    const lineBreak = !link && this.match(BREAK);
    if (link) this.push(link[0].length, anchor(link[1], [link[1].replace(/^mailto:/, "")]) ?? link[0]);
    else if (lineBreak) this.push(lineBreak[0].length, el("br"));
    else this.push(1, "<");
  }

  entity() {
    const found = this.match(ENTITY);
    if (found) this.push(found[0].length, ENTITIES[found[1]]);
    else this.push(1, "&");
  }

  bareLink() {
    const found = this.match(BARE);
    if (!found || /\w/.test(this.text[this.at - 1] ?? "")) {
      this.push(4, "http");
      return;
    }
    const address = trimAddress(found[0]);
    this.push(address.length, anchor(address, [address]) ?? address);
  }

  emphasisMark(character) {
    const count = runLength(this.text, this.at);
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + count] ?? " ";
    const [spaceBefore, spaceAfter] = [/\s/.test(before), /\s/.test(after)];
    const [pointBefore, pointAfter] = [PUNCTUATION.test(before), PUNCTUATION.test(after)];
    const left = !spaceAfter && (!pointAfter || spaceBefore || pointBefore);
    const right = !spaceBefore && (!pointBefore || spaceAfter || pointAfter);
    const within = character === "_"; // snake_case is a word
    const mark = {
      mark: character,
      count,
      opens: left && (!within || !right || pointBefore),
      closes: right && (!within || !left || pointAfter),
    };
    if (this.isHalfMark(character, count)) this.push(count, "");
    else this.push(count, character === "~" && count !== 2 ? "~".repeat(count) : mark);
  }

  /** Return whether this is the first of two asterisks that will close bold text: shown, it would flicker. */
  isHalfMark(character, count) {
    if (!this.open || count !== 1 || this.at + 1 < this.text.length) return false;
    return this.parts.some((part) => part.mark === character && part.count === 2 && part.opens);
  }
}

/** Turn pairs of marks into elements, and marks without a partner back into text. */
function emphasize(parts, open) {
  const done = [];
  const openers = []; // positions in done
  for (const part of parts) {
    if (!part.mark || part.image !== undefined) {
      done.push(part);
      continue;
    }
    if (part.closes) closeWith(part, done, openers);
    if (part.count && part.opens) openers.push(done.length);
    if (part.count) done.push(part);
  }
  if (open) closeAtEnd(done, openers);
  return done.map((part) => (part.mark ? asText(part) : part));
}

function closeWith(closer, done, openers) {
  while (closer.count) {
    const lowest = Math.max(0, openers.length - MAX_OPENERS_SEARCHED);
    let at = openers.length - 1;
    while (at >= lowest && !pairs(done[openers[at]], closer)) at--;
    if (at < lowest) return;
    const position = openers[at];
    const opener = done[position];
    const used = opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    wrap(done, position, opener, used);
    closer.count -= used;
    openers.length = opener.count ? at + 1 : at;
  }
}

function pairs(opener, closer) {
  if (opener.mark !== closer.mark) return false;
  const both = opener.closes || closer.opens;
  return !(both && (opener.count + closer.count) % 3 === 0 && !(opener.count % 3 === 0 && closer.count % 3 === 0));
}

function wrap(done, position, opener, used) {
  const inner = done.splice(position + 1).map((part) => (part.mark ? asText(part) : part));
  opener.count -= used;
  if (!opener.count) done.pop();
  done.push(fill(el(opener.mark === "~" ? "del" : used === 2 ? "strong" : "em"), inner));
}

function closeAtEnd(done, openers) {
  const last = done.at(-1);
  if (last?.mark && last.image === undefined && !last.closes) {
    done.pop(); // the mark is not complete yet
    if (openers.at(-1) === done.length) openers.pop();
  }
  while (openers.length) {
    const position = openers.pop();
    const opener = done[position];
    if (position < done.length - 1) wrap(done, position, opener, Math.min(2, opener.count));
  }
}

const asText = (part) => (part.image === undefined ? part.mark.repeat(part.count) : part.mark);

function linkOrImage(target, label, image) {
  if (image && mediaPath(target)) return [picture(mediaPath(target), label.map(textOf).join(""))];
  const link = anchor(target, label.length ? label : [target]);
  return link ? [link] : [...label, ` (${target})`];
}

/** Return a link, or null for an address that is not a web page, a mail address or a stored file. */
function anchor(target, label) {
  const address = safeAddress(target);
  return address && fill(el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }), label);
}

/** Let the browser's own parser decide, as it would when the link is followed. */
function safeAddress(target) {
  try {
    const address = new URL(target);
    return LINK_PROTOCOLS.has(address.protocol) ? address.href : null;
  } catch {
    return mediaPath(target); // relative
  }
}

const textOf = (part) => (typeof part === "string" ? part : part.textContent);

function codeSpan(text) {
  const flat = text.replaceAll("\n", " ");
  const padded = flat.length > 2 && flat.startsWith(" ") && flat.endsWith(" ") && flat.trim();
  return el("code", {}, padded ? flat.slice(1, -1) : flat);
}

function runLength(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end++;
  return end - at;
}

/** Cut punctuation after an address: it belongs to the sentence around it. */
function trimAddress(address) {
  let end = address.length;
  while (end > 8) {
    const last = address[end - 1];
    const unbalanced =
      last === ")" && address.slice(0, end).split("(").length < address.slice(0, end).split(")").length;
    if (!unbalanced && !/[.,:;!?*_~'\]]/.test(last)) break;
    end--;
  }
  return address.slice(0, end);
}
