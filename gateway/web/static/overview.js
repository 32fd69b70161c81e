// The operator's page: what the gateway is doing, who is let in, what it costs. Shown anew every few seconds.

import { get, post, remove, setLockedHandler } from "./api.js";
import { byId, debounce, el } from "./dom.js";
import { dayName, shortTime, timeView } from "./time.js";

const REFRESH_MS = 3_000;
const SECTIONS = {
  status: ["Status", showStatus],
  people: ["People", showPeople],
  messages: ["Messages", showMessages],
  conversations: ["Conversations", showConversations],
  processes: ["Processes", showProcesses],
  jobs: ["Jobs", showJobs],
  usage: ["Usage", showUsage],
  logs: ["Log", showLogs],
  doctor: ["Doctor", showDoctor],
};

const panel = byId("panel");
let shown = ""; // the hash of what is on the screen
let refresh = () => {};

setLockedHandler(() => location.assign("/"));
window.addEventListener("hashchange", open);
setInterval(() => document.hidden || refresh(), REFRESH_MS);
open();

function open() {
  const [name, id] = location.hash.slice(1).split("/");
  const section = SECTIONS[name] ? name : "status";
  byId("tabs").replaceChildren(
    el("a", { href: "/" }, "Chat"),
    ...Object.entries(SECTIONS).map(([key, [title]]) =>
      el("a", { href: `#${key}`, "aria-current": key === section ? "page" : undefined }, title),
    ),
  );
  shown = location.hash;
  panel.replaceChildren();
  refresh = () => {};
  SECTIONS[section][1](id && decodeURIComponent(id));
}

/** Run `render` with the answer of `path` now, and again every few seconds unless told otherwise. */
async function keep(path, render, { again = true } = {}) {
  const hash = shown;
  const run = async () => {
    try {
      const facts = await get(path);
      byId("problem").hidden = true;
      if (hash === shown) panel.replaceChildren(...render(facts).filter(Boolean));
    } catch (problem) {
      complain(problem);
    }
  };
  if (again) refresh = run;
  await run();
}

async function act(work) {
  try {
    await work();
  } catch (problem) {
    complain(problem);
  }
  refresh();
}

function complain(problem) {
  byId("problem").textContent = problem.message;
  byId("problem").hidden = false;
}

const when = (ms) => el("td", { class: "when" }, timeView(ms, shortTime(ms)));
const cell = (...children) => el("td", {}, ...children);
const number = (value) => el("td", { class: "number" }, value.toLocaleString());
const dollars = (micros) => el("td", { class: "number" }, micros ? `$${(micros / 1e6).toFixed(4)}` : "");

function table(heads, rows, nothing) {
  if (!rows.length) return el("p", {}, nothing);
  const isNumber = (index) => rows[0][index].className === "number";
  const head = el("tr", {}, ...heads.map((text, index) => el("th", { class: isNumber(index) && "number" }, text)));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row))));
}

const card = (value, label) => el("div", { class: "card" }, el("b", {}, String(value)), el("span", {}, label));

function showStatus() {
  keep("/api/overview", ({ gateway, counts, pairing }) => [
    el(
      "div",
      { class: "cards" },
      card(gateway.store ? "store problem" : gateway.state, "gateway"),
      card(counts.running, "turns running"),
      card(counts.waiting, "messages waiting"),
      card(counts.undelivered, "replies not sent yet"),
      card(pairing.pending.length, "people asking for access"),
      card(counts.processes, "processes running"),
    ),
    gateway.store && el("p", { class: "state-bad" }, gateway.store),
    el("h2", {}, "Platforms"),
    table(
      ["Platform", "State", "Last heard", "Problem"],
      Object.entries(gateway.platforms ?? {}).map(([account, platform]) => [
        cell(account),
        el("td", { class: platform.state === "connected" ? "state-ok" : "state-bad" }, platform.state),
        platform.last_heard_ms ? when(platform.last_heard_ms) : cell(""),
        cell(platform.problem),
      ]),
      "No platform is set up. Run: hermes setup",
    ),
  ]);
}

function showPeople() {
  keep("/api/overview", ({ pairing }) => [
    el("h2", {}, "Asking for access"),
    table(
      ["Who", "Id", "Since", ""],
      pairing.pending.map((one) => [
        cell(one.name),
        cell(`${one.account}:${one.user_id}`),
        when(one.requested_ms),
        cell(decideButton(one, "member", "Let in"), decideButton(one, null, "Refuse")),
      ]),
      "Nobody is asking. Strangers who write to the bot appear here.",
    ),
    el("p", {}, `With access: ${pairing.people}. To list them: hermes pairing list`),
  ]);
}

function decideButton({ account, user_id }, role, label) {
  const onclick = () => act(() => post("/api/overview/pairing", { account, user_id, role }));
  return el("button", { type: "button", class: "plain", onclick }, label);
}

function showMessages(id) {
  if (id) {
    keep(`/api/overview/messages/${encodeURIComponent(id)}`, ({ lines }) => [
      el("h2", {}, "What happened to this message"),
      el("pre", {}, lines.join("\n")),
    ]);
    return;
  }
  keep("/api/overview", ({ messages }) => [
    el("h2", {}, "Newest messages"),
    table(
      ["When", "Where", "What became of it"],
      messages.map((one) => [
        when(one.at_ms),
        cell(one.account),
        cell(el("a", { href: `#messages/${one.id}` }, one.verdict)),
      ]),
      "No message has come in yet.",
    ),
  ]);
}

function showConversations(id) {
  if (id) {
    const path = `/api/overview/sessions/${encodeURIComponent(id)}`;
    keep(path, ({ title, key, entries }) => [
      el("h2", { dir: "auto" }, title || "Conversation"),
      el("p", {}, key),
      ...entries.map(({ role, text, tools, at_ms }) => {
        const head = el("b", {}, `${role}${tools.length ? ` (${tools.join(", ")})` : ""}, `, timeView(at_ms));
        return el("div", { class: "said", dir: "auto" }, head, text);
      }),
    ]);
    return;
  }
  const query = el("input", { type: "search", placeholder: "Search all conversations", "aria-label": "Search" });
  const everyone = el("input", { type: "checkbox" });
  const results = el("div");
  const fetch = async () => {
    try {
      const about = `query=${encodeURIComponent(query.value)}${everyone.checked ? "&everyone=1" : ""}`;
      const { sessions } = await get(`/api/overview/sessions?${about}`);
      const rows = sessions.map((one) => [
        when(one.updated_ms),
        cell(one.key),
        cell(el("a", { href: `#conversations/${one.id}`, dir: "auto" }, one.title || "(no title)")),
      ]);
      results.replaceChildren(table(["When", "Where", "Conversation"], rows, "Nothing found."));
    } catch (problem) {
      complain(problem);
    }
  };
  query.addEventListener("input", debounce(fetch, 220));
  everyone.addEventListener("change", fetch);
  const choice = el("label", {}, everyone, " also private conversations of other people");
  panel.replaceChildren(el("div", { class: "find", role: "search" }, query, choice), results);
  fetch();
}

function showProcesses(id) {
  if (id) {
    keep(`/api/overview/processes/${encodeURIComponent(id)}`, (one) => [
      el("h2", {}, one.command),
      el("p", {}, `${one.id} in ${one.workdir}: ${stateOf(one)}`),
      el("pre", {}, one.output || "(no output yet)"),
    ]);
    return;
  }
  keep("/api/overview", ({ processes }) => [
    el("h2", {}, "Background processes"),
    table(
      ["Started", "Command", "State", ""],
      processes.map((one) => [
        when(one.started_ms),
        cell(el("a", { href: `#processes/${one.id}` }, one.command)),
        cell(stateOf(one)),
        cell(one.can_end && endButton(one)),
      ]),
      "No background process has run lately.",
    ),
  ]);
}

function endButton({ id }) {
  const onclick = () => act(() => remove(`/api/overview/processes/${encodeURIComponent(id)}`));
  return el("button", { type: "button", class: "plain", onclick }, "End");
}

function stateOf({ ended_ms, exit_code }) {
  if (!ended_ms) return "running";
  return exit_code === null ? "ended" : `ended with ${exit_code}`;
}

function showJobs() {
  keep("/api/overview", ({ jobs }) => [
    el("h2", {}, "Scheduled jobs"),
    table(
      ["Job", "When", "Next", "Last"],
      jobs.map((one) => [
        cell(one.name),
        cell(one.meaning),
        cell(one.next[0] ?? (one.status_reason ? `${one.status}: ${one.status_reason}` : one.status)),
        cell(one.last),
      ]),
      "Nothing is scheduled. Ask for it in a chat, or see: hermes cron create --help",
    ),
  ]);
}

function showUsage() {
  const titles = { day: "By day", person: "By person", model: "By model" };
  keep("/api/overview", ({ usage }) =>
    Object.entries(titles).flatMap(([by, title]) => {
      const most = Math.max(1, ...usage[by].map((one) => one.input_tokens + one.output_tokens));
      const rows = usage[by].map((one) => {
        const tokens = one.input_tokens + one.output_tokens;
        const bar = el("span", { class: "usage-bar" });
        bar.style.width = `${(100 * tokens) / most}%`;
        const name = by === "day" ? dayName(Date.parse(`${one.name}T12:00`)) : one.name;
        return [cell(name), el("td", { class: "bar-cell" }, bar), number(tokens), number(one.calls), dollars(one.cost_micros)];
      });
      return [el("h2", {}, title), table(["", "", "Tokens", "Calls", "Cost"], rows, "Nothing was used in 30 days.")];
    }),
  );
}

function showLogs() {
  keep("/api/overview/logs", ({ lines }) => [
    el("h2", {}, "Newest lines of the log"),
    lines.length ? el("pre", {}, [...lines].reverse().join("\n")) : el("p", {}, "Nothing was logged since the start."),
  ]);
}

function showDoctor() {
  panel.replaceChildren(el("p", {}, el("span", { class: "spinner" }), " Checking …"));
  const signs = { ok: "✓", warn: "!", bad: "✗" };
  keep(
    "/api/overview/doctor",
    ({ findings }) => [
      el("h2", {}, "Findings of hermes doctor"),
      table(
        ["", "Part", "Finding", "What to do"],
        findings.map((one) => [
          el("td", { class: `state-${one.level}` }, signs[one.level]),
          cell(one.part),
          cell(one.text),
          cell(one.fix && el("code", {}, one.fix)),
        ]),
        "Nothing was checked.",
      ),
    ],
    { again: false },
  );
}
