// What a message says, to DOM nodes: Telegram's entities, Discord's Markdown, Slack's mrkdwn. Never to markup.

import { el } from "./dom.js";

export function wordsToNodes(words, names) {
  if (words.format === "entities") return withEntities(words.text, words.entities);
  return blocks(words.text, words.format === "mrkdwn" ? MRKDWN : MARKDOWN, names);
}

// Telegram: offsets and lengths in UTF-16 units, which is how JavaScript counts.

const TAGS = {
  bold: "strong",
  italic: "em",
  underline: "u",
  strikethrough: "s",
  code: "code",
  blockquote: "blockquote",
  expandable_blockquote: "blockquote",
};

function withEntities(text, entities) {
  const sorted = [...entities].sort((a, b) => a.offset - b.offset || b.length - a.length);
  return between(text, 0, text.length, sorted);
}

function between(text, start, end, entities) {
  const nodes = [];
  let at = start;
  for (let index = 0; index < entities.length; index++) {
    const one = entities[index];
    const stop = Math.min(one.offset + one.length, end);
    if (one.offset < at || stop <= one.offset) continue;
    if (one.offset > at) nodes.push(text.slice(at, one.offset));
    const inner = entities.slice(index + 1).filter((other) => other.offset < stop);
    nodes.push(entityNode(one, text.slice(one.offset, stop), between(text, one.offset, stop, inner)));
    at = stop;
    // A block ends its line by itself; with the line break that follows there would be an empty one.
    if (one.type === "pre" && text[at] === "\n" && at < end) at++;
  }
  if (at < end) nodes.push(text.slice(at, end));
  return nodes;
}

function entityNode(entity, plain, inner) {
  if (entity.type === "pre") return el("pre", {}, el("code", {}, plain));
  if (entity.type === "text_link") return link(entity.url, inner);
  if (entity.type === "url") return link(plain, inner);
  if (["mention", "bot_command", "hashtag", "text_mention", "email"].includes(entity.type))
    return el("span", { class: "mention" }, inner);
  return el(TAGS[entity.type] ?? "span", {}, inner);
}

// Markdown and mrkdwn: blocks first, then what is within a line.

const MARKDOWN = {
  inline: [
    [/\[([^\]\n]{1,300})\]\((https?:\/\/[^\s()]{1,2000})\)/, (m, go) => link(m[2], go(m[1]))],
    [/<@!?(\w{1,30})>/, (m, go, names) => mention(names[m[1]] ?? m[1])],
    [/\*\*([^\n]{1,2000}?)\*\*/, (m, go) => el("strong", {}, go(m[1]))],
    [/__([^\n]{1,2000}?)__/, (m, go) => el("strong", {}, go(m[1]))],
    [/~~([^\n]{1,2000}?)~~/, (m, go) => el("s", {}, go(m[1]))],
    [/(?<![\w*])\*(?![\s*])([^*\n]{1,2000}?)(?<!\s)\*(?!\w)/, (m, go) => el("em", {}, go(m[1]))],
    [/(?<!\w)_(?!\s)([^_\n]{1,2000}?)(?<!\s)_(?!\w)/, (m, go) => el("em", {}, go(m[1]))],
    [/<?(https?:\/\/[^\s<>()]{1,2000})>?/, (m) => link(m[1], [m[1]])],
    [/\\([\\`*_~[\]<>#|.!-])/, (m) => m[1]],
  ],
  heading: /^#{1,4}\s+(.*)$/,
};
const MRKDWN = {
  inline: [
    [/<@(\w{1,30})(?:\|[^<>]*)?>/, (m, go, names) => mention(names[m[1]] ?? m[1])],
    [/<#(\w{1,30})\|?([^<>]*)>/, (m) => mention(m[2] || m[1])],
    [/<((?:https?|mailto):[^<>|]{1,2000})\|([^<>]{1,500})>/, (m, go) => link(m[1], go(m[2]))],
    [/<((?:https?|mailto):[^<>|]{1,2000})>/, (m) => link(m[1], [m[1]])],
    [/(?<!\w)\*(?!\s)([^*\n]{1,2000}?)(?<!\s)\*(?!\w)/, (m, go) => el("strong", {}, go(m[1]))],
    [/(?<!\w)_(?!\s)([^_\n]{1,2000}?)(?<!\s)_(?!\w)/, (m, go) => el("em", {}, go(m[1]))],
    [/(?<!\w)~(?!\s)([^~\n]{1,2000}?)(?<!\s)~(?!\w)/, (m, go) => el("s", {}, go(m[1]))],
    [/&(amp|lt|gt);/, (m) => ({ amp: "&", lt: "<", gt: ">" })[m[1]]],
  ],
  heading: /^(?!)/,
};
const CODE = [/`([^`\n]{1,2000})`/, (m) => el("code", {}, unescaped(m[1]))];

function blocks(text, flavour, names) {
  const nodes = [];
  const pieces = text.split(/```(?:[\w+-]{0,20}\n)?([\s\S]*?)```/);
  pieces.forEach((piece, index) => {
    if (index % 2) nodes.push(el("pre", {}, el("code", {}, flavour === MRKDWN ? unescaped(piece) : piece)));
    else if (piece.trim()) nodes.push(...lines(piece.replace(/^\n+|\n+$/g, ""), flavour, names));
  });
  return nodes;
}

function lines(text, flavour, names) {
  const nodes = [];
  let lastWasBlock = true;
  for (const line of text.split("\n")) {
    const block = blockLine(line, flavour, names);
    if (!block && !lastWasBlock) nodes.push(el("br"));
    if (block) nodes.push(block);
    else nodes.push(...inline(line, flavour, names));
    lastWasBlock = Boolean(block);
  }
  return nodes;
}

function blockLine(line, flavour, names) {
  const go = (words) => inline(words, flavour, names);
  const heading = flavour.heading.exec(line);
  if (heading) return el("span", { class: "heading" }, go(heading[1]));
  const quote = /^(?:>|&gt;) ?(.*)$/.exec(line);
  if (quote) return el("blockquote", {}, go(quote[1]));
  const item = /^\s{0,8}(?:[-*•]|(\d{1,3})\.)\s+(.*)$/.exec(line);
  if (!item) return null;
  const bullet = el("span", { class: "bullet" }, item[1] ? `${item[1]}.` : "•");
  return el("span", { class: "item" }, bullet, el("span", {}, go(item[2])));
}

function inline(text, flavour, names) {
  const rules = [CODE, ...flavour.inline];
  const go = (words) => inline(words, flavour, names);
  const nodes = [];
  let rest = text;
  while (rest) {
    let first = null;
    for (const [pattern, make] of rules) {
      const found = pattern.exec(rest);
      if (found && (!first || found.index < first.found.index)) first = { found, make };
    }
    if (!first) break;
    if (first.found.index) nodes.push(rest.slice(0, first.found.index));
    nodes.push(first.make(first.found, go, names));
    rest = rest.slice(first.found.index + first.found[0].length);
  }
  if (rest) nodes.push(rest);
  return nodes;
}

const mention = (name) => el("span", { class: "mention" }, `@${name}`);
const unescaped = (text) => text.replace(/&(amp|lt|gt);/g, (_, name) => ({ amp: "&", lt: "<", gt: ">" })[name]);

function link(address, inner) {
  if (!/^https?:\/\//i.test(address)) return el("span", {}, inner);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, inner);
}
