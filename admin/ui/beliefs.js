// SPDX-License-Identifier: Apache-2.0

// The views of the nodes: a column for each node, and a row for each value that can differ. A value
// that differs from the majority is marked by a sign, a frame and a word for screen readers. If
// there are many nodes, nodes with equal values share a column, and members with equal values share
// a row.

import { Debounce, differing } from "./consensus.js";
import { el, setAttribute, setText } from "./dom.js";
import { brief, list, milliseconds, shape } from "./words.js";

const most = 5; // with more nodes, columns are shared
const letters = 12; // maximum length of a name
const listed = 3; // names listed for a shared column

// The rows about the node itself. Rows with compared set are compared across nodes.
const facts = [
  { title: "role", value: (s) =>
    // A member that holds a state and has lost its leader asks to join again.
    (s.role === "joining" && s.view.members.length ? "○ seeks a leader" : roles[s.role] ?? s.role) },
  { title: "follows", value: (s, name) => name(s.view.leader) || "none", compared: true },
  { title: "version", value: (s) => `${s.view.version_text}.${s.view.revision_text}`,
    compared: (s) => s.view.version_text },
  { title: "authority", value: (s) => (s.token > 0 ? "yes" : "no"), compared: true },
  { title: "token", value: (s) => (s.token > 0 ? s.fencing_token : "–"), compared: true },
  { title: "lease left", value: (s) =>
    (s.lease_remaining_ms > 0 ? milliseconds(s.lease_remaining_ms) : "–") },
  { title: "uptime", value: (s) => milliseconds(s.uptime_ms) },
];

const roles = {
  leader: "★ leader", provisional: "☆ provisional", follower: "follower", joining: "+ joining",
};

// A Beliefs is the table.
export class Beliefs {
  #place;
  #shown = ""; // the current columns and rows
  #cells = new Map();
  #debounce = new Debounce();

  constructor(place) {
    this.#place = place;
  }

  // draw shows looks, and returns the number of rows that differ.
  draw(looks, names, reference) {
    const called = brief([...new Set(names.values())], letters);
    const name = (address) => (address ? called.get(names.get(address)) ?? address : "");
    const many = looks.length > most;
    const columns = columnsOf(looks, many);
    const rows = [...factsOf(looks, name), ...rowsOf(looks, columns, many)];
    this.#build(columns, rows, name, names);
    for (const column of columns) this.#head(column, name);
    const at = looks.indexOf(reference);
    let marked = 0;
    for (const row of rows) marked += this.#row(row, looks, columns, at);
    this.#debounce.nextRound();
    return marked;
  }

  // row fills the cells of a row, and marks those that differ.
  #row({ key, values, compared, members }, looks, columns, at) {
    const differs = compared ? differing(compared, compared[at]) : [];
    let marked = false;
    for (const column of columns) {
      const here = column.looks.map((look) => looks.indexOf(look));
      const all = [...new Set(here.map((i) => values[i]))];
      const name = `${key}\n${column.key}`;
      const cell = this.#cells.get(name);
      const mark = Boolean(differs[here[0]]) && this.#debounce.persists(name, compared[here[0]]);
      marked ||= mark;
      setText(cell.value, all.length > 1 ? `${all[0]} and others` : all[0] ?? "–");
      setText(cell.mark, mark ? "≠ " : "");
      setText(cell.spoken, mark ? " (differs)" : "");
      cell.td.classList.toggle("differs", mark);
      cell.td.classList.toggle("silent", all[0] === undefined);
      cell.td.classList.toggle("self", here.length === 1 && members?.length === 1 &&
        column.looks[0].node.address === members[0]);
    }
    setText(this.#cells.get(`${key}\n`), marked ? "≠" : "");
    return marked ? 1 : 0;
  }

  // build rebuilds the table if its nodes or members have changed.
  #build(columns, rows, name, names) {
    const titles = rows.map((r) => r.title ?? shared(r.members.map(name), "members"));
    const heads = columns.map((c) => shared(c.looks.map((l) => name(l.node.address)), "nodes"));
    const shown = JSON.stringify([heads, columns.map((c) => c.key), titles]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#cells.clear();
    const top = el("tr", {}, el("td", {}));
    columns.forEach((c, i) => {
      const note = el("span", { class: "note" });
      this.#cells.set(`head\n${c.key}`, note);
      top.append(el("th", { scope: "col", title: c.looks.map((l) => l.node.name).join(", ") },
        el("span", { class: "name" }, heads[i]), note));
    });
    const [body, seen] = [el("tbody"), el("tbody")];
    seen.append(el("tr", { class: "divide" }, el("th", { scope: "rowgroup", colspan: columns.length + 1 },
      "members")));
    rows.forEach((row, i) => (row.members ? seen : body).append(this.#line(row, titles[i], columns, names)));
    this.#place.replaceChildren(el("table", {},
      el("caption", { class: "spoken" }, "the view of each node"),
      el("thead", {}, top), body, seen));
  }

  #head({ key, looks }, name) {
    const [{ node, error, why }] = looks;
    const note = this.#cells.get(`head\n${key}`);
    const alone = looks.length === 1;
    const fact = error || (node.cut ? "isolated" : alone && node.self ? "this node" : "responds");
    setText(note, alone ? fact :
      `${error || node.cut ? `${fact}: ` : ""}${list(looks.map((l) => name(l.node.address)), listed)}`);
    setAttribute(note, "title", why || null);
    note.classList.toggle("bad", Boolean(error) || Boolean(node.cut));
  }

  #line({ key, members }, title, columns, names) {
    const sign = el("span", { class: "sign", "aria-hidden": "true" });
    this.#cells.set(`${key}\n`, sign);
    const whole = members?.map((address) => names.get(address) ?? address).join(", ");
    const row = el("tr", {}, el("th", { scope: "row", title: whole }, title, sign));
    for (const column of columns) {
      const cell = {
        mark: el("span", { "aria-hidden": "true" }), value: el("span"),
        spoken: el("span", { class: "spoken" }),
      };
      cell.td = el("td", {}, cell.mark, cell.value, cell.spoken);
      this.#cells.set(`${key}\n${column.key}`, cell);
      row.append(cell.td);
    }
    return row;
  }
}

// shared returns the name of a single entry, or the number of entries.
const shared = (names, what) => (names.length === 1 ? names[0] : `${names.length} ${what}`);

// seenBy returns the status of a member in a look, or undefined if the node does not respond.
function seenBy({ status: s }, address) {
  if (!s) return undefined;
  const m = s.view.members.find((m) => m.address === address);
  return m ? `${shape(m.status)} ${m.status}` : "unknown";
}

// columnsOf groups looks with equal values, if there are many.
function columnsOf(looks, many) {
  const same = ({ node, status: s, error }) => JSON.stringify([node.cut, s ? [s.role, s.view.leader,
    s.view.version_text, s.token > 0, s.view.members.map((m) => [m.address, m.status])] : error]);
  const groups = Map.groupBy(looks, (look) => (many ? same(look) : look.node.name));
  return [...groups.values()].map((looks) =>
    ({ looks, key: looks.map((l) => l.node.name).join("\n") }));
}

// factsOf returns the rows about each node itself.
const factsOf = (looks, name) => facts.map(({ title, value, compared }) => {
  const of = (f) => looks.map(({ status: s }) => (s ? f(s, name) : undefined));
  const judged = typeof compared === "function" ? compared : compared && value;
  return { key: title, title, values: of(value), compared: judged && of(judged) };
});

// rowsOf returns the rows about members, in the order of the nodes. If there are many, members with
// equal values share a row.
function rowsOf(looks, columns, many) {
  const all = new Set(looks.map((l) => l.node.address));
  for (const { status } of looks) {
    for (const m of status?.view.members ?? []) all.add(m.address);
  }
  const groups = Map.groupBy(all, (address) =>
    (many ? JSON.stringify(columns.map((c) => seenBy(c.looks[0], address))) : address));
  return [...groups.values()].map((members) => {
    const values = looks.map((look) => seenBy(look, members[0]));
    return { key: members.join("\n"), members, values, compared: values };
  });
}
