// Parses Markdown into blocks of plain data. Forgiving, because models are careless and text arrives in pieces.

const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const UNDERLINE = /^ {0,3}(={2,}|-{2,}) *$/;
const TASK = /^\[([ xX])\] +/;
const MAX_DEPTH = 12;

/** Return the blocks, each with its kind, `from` (its first line) and `next` (the line after its last). */
export function parse(lines, depth = 0) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    const block = leaf(lines, at) ?? nested(lines, at, depth) ?? table(lines, at) ?? paragraph(lines, at);
    blocks.push({ ...block, from: at });
    at = block.next;
  }
  return blocks;
}

const leaf = (lines, at) => fence(lines, at) ?? heading(lines, at) ?? rule(lines, at);

function fence(lines, at) {
  const found = FENCE.exec(lines[at]);
  if (!found) return null;
  const [, indent, marks, info] = found;
  const code = [];
  for (let next = at + 1; next < lines.length; next++) {
    const line = lines[next];
    const closing = line.trim();
    if (closing.length >= marks.length && closing === marks[0].repeat(closing.length))
      return codeBlock(info, code, next + 1);
    code.push(indent ? line.replace(new RegExp(`^ {0,${indent.length}}`), "") : line);
  }
  return codeBlock(info, code, lines.length);
}

const codeBlock = (info, code, next) => ({
  kind: "code",
  language: info.trim().split(/\s/)[0].slice(0, 40),
  text: code.join("\n"),
  next,
});

function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  if (!found) return null;
  const text = (found[2] ?? "").trim().replace(/(?:^|[ \t])#{1,9}$/, "");
  return { kind: "heading", level: found[1].length, text: text.trim(), next: at + 1 };
}

const rule = (lines, at) => (RULE.test(lines[at]) ? { kind: "rule", next: at + 1 } : null);

function nested(lines, at, depth) {
  if (depth >= MAX_DEPTH) return null;
  return quote(lines, at, depth) ?? list(lines, at, depth);
}

function quote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  const inner = [];
  let next = at;
  while (next < lines.length && (QUOTE.test(lines[next]) || (lines[next].trim() && !beginsBlock(lines, next)))) {
    inner.push(lines[next++].replace(QUOTE, ""));
  }
  return { kind: "quote", blocks: parse(inner, depth + 1), next };
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const base = first[1].length;
  const ordered = isNumber(first[2]);
  const items = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next]);
    if (!found || RULE.test(lines[next]) || isNumber(found[2]) !== ordered || found[1].length > base + 1) break;
    const item = listItem(lines, next, found, base);
    items.push(parseItem(item.lines, depth));
    loose ||= item.gapInside || (item.gapAfter && ITEM.test(lines[item.next] ?? ""));
    next = item.next;
  }
  return { kind: "list", ordered, start: ordered ? Number.parseInt(first[2], 10) : 1, items, loose, next };
}

/** Return the lines of one item without its indent. Two spaces are enough to belong to it, whatever its marker. */
function listItem(lines, at, found, base) {
  const width = found[1].length + found[2].length + Math.min(found[3]?.length ?? 1, 4);
  const inner = [found[4] ?? ""];
  let fenced = fenceAfter("", inner[0]);
  let next = at + 1;
  let blanks = 0;
  let gapInside = false;
  for (; next < lines.length; next++) {
    const line = fenced ? lines[next] : detab(lines[next]);
    const indent = line.length - line.trimStart().length;
    if (!line.trim()) {
      blanks++;
      continue;
    }
    const lazy = !blanks && !fenced && !ITEM.test(line) && !beginsBlock(lines, next);
    if (indent < base + 2 && !lazy) break;
    gapInside ||= blanks > 0 && !fenced;
    for (; blanks; blanks--) inner.push("");
    inner.push(line.slice(Math.min(indent, width)));
    fenced = fenceAfter(fenced, inner.at(-1));
  }
  return { lines: inner, next, gapInside, gapAfter: blanks > 0 };
}

/** Return the marks of the code block that is open after this line, or an empty string. */
function fenceAfter(marks, line) {
  if (!marks) return FENCE.exec(line)?.[2] ?? "";
  const closing = line.trim();
  return closing.startsWith(marks) && closing === marks[0].repeat(closing.length) ? "" : marks;
}

const detab = (line) => line.replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    "));

function parseItem(lines, depth) {
  const task = TASK.exec(lines[0]);
  const rest = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
  return { task: task ? (task[1] === " " ? "open" : "done") : "", blocks: parse(rest, depth + 1) };
}

function table(lines, at) {
  if (!isTableHead(lines, at)) return null;
  const head = cells(lines[at]);
  const aligns = cells(lines[at + 1]).map((cell) =>
    cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : "",
  );
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].trim() && !beginsBlock(lines, next)) rows.push(cells(lines[next++]));
  return { kind: "table", head, aligns, rows, next };
}

function isTableHead(lines, at) {
  const below = lines[at + 1];
  if (!below?.includes("-") || !lines[at].includes("|")) return false;
  const marks = cells(below);
  return marks.every((cell) => /^:?-+:?$/.test(cell)) && marks.length === cells(lines[at]).length;
}

function cells(line) {
  const row = line.trim().replace(/^\|/, "");
  const found = [""];
  for (let at = 0; at < row.length; at++) {
    if (row[at] === "\\" && row[at + 1] === "|") found[found.length - 1] += row[++at];
    else if (row[at] === "|") found.push("");
    else found[found.length - 1] += row[at];
  }
  if (found.length > 1 && !found.at(-1).trim()) found.pop();
  return found.map((cell) => cell.trim());
}

function paragraph(lines, at) {
  const text = [lines[at].trim()];
  let next = at + 1;
  for (; next < lines.length && lines[next].trim(); next++) {
    const underline = UNDERLINE.exec(lines[next]);
    if (underline && text.length === 1) {
      return { kind: "heading", level: underline[1][0] === "=" ? 1 : 2, text: text[0], next: next + 1 };
    }
    if (beginsBlock(lines, next) || isTableHead(lines, next)) break;
    text.push(lines[next].trim());
  }
  return { kind: "paragraph", text: text.join("\n"), next };
}

/** Return whether a new block begins here, rather than another line of the same paragraph. */
function beginsBlock(lines, at) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  const item = ITEM.exec(line);
  return Boolean(item?.[4]) && (!isNumber(item[2]) || Number.parseInt(item[2], 10) === 1 || item[1].length > 0);
}

const isNumber = (marker) => marker.length > 1;
