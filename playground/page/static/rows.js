// The gateway's tables as they change: the newest rows, the changed cells marked until the eye has found them.

import { byId, el } from "./dom.js";

const HEADS = {
  sender_name: "sender",
  parts: "says",
  session_key: "session",
  total_tokens: "tokens",
  ended_ms: "ended",
  user_name: "who",
};

export class Tables {
  constructor() {
    this.shown = new Map();
    byId("row").addEventListener("click", (event) => event.target === byId("row") && byId("row").close());
  }

  show(tables) {
    const box = byId("tables");
    for (const [name, table] of Object.entries(tables)) {
      const from = JSON.stringify(table.rows);
      if (this.shown.get(name)?.from === from) continue;
      const element = tableElement(name, table);
      const known = this.shown.get(name)?.element;
      if (known) known.replaceWith(element);
      else box.append(element);
      this.shown.set(name, { from, element });
    }
  }
}

function tableElement(name, { columns, rows, changed }) {
  const head = columns.map((column) => el("th", { scope: "col", class: `c-${column}` }, HEADS[column] ?? column));
  const body = rows.map((row) => rowElement(name, columns, row, changed[row.id] ?? []));
  if (!rows.length) body.push(el("tr", {}, el("td", { class: "none", colspan: columns.length }, "empty")));
  const top = el("thead", {}, el("tr", {}, head));
  return el("table", { class: `t-${name}` }, el("caption", {}, name), top, el("tbody", {}, body));
}

function rowElement(name, columns, row, changed) {
  const cells = columns.map((column) => {
    const kind = changed.includes(column) ? `c-${column} changed` : `c-${column}`;
    return el("td", { class: kind, title: row[column] }, shownCell(column, row[column]));
  });
  const open = () => openRow(name, row);
  const onkeydown = (event) => event.key === "Enter" && open();
  return el("tr", { tabindex: 0, class: `s-${row.state ?? ""}`, onclick: open, onkeydown }, cells);
}

function shownCell(column, value) {
  if (column === "parts") return saidIn(value);
  if (column === "hash") return value ? `hash, ${value}` : "";
  if (column === "ended_ms") return value ? "ended" : "";
  const most = column === "id" ? 20 : 40;
  return value.length > most ? `${value.slice(0, column === "id" ? 8 : 38)}…` : value;
}

function saidIn(parts) {
  try {
    return JSON.parse(parts).map((part) => part.text ?? part.name ?? part.type).join(" ");
  } catch {
    return parts.replace(/^\[\{"type": "text", "text": "/, "");
  }
}

function openRow(name, row) {
  byId("row-title").textContent = `${name} ${row.id}`;
  const cells = Object.entries(row).flatMap(([column, value]) => [el("dt", {}, column), el("dd", {}, value || "—")]);
  byId("row-cells").replaceChildren(...cells);
  byId("row").showModal();
}
