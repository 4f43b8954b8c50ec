// SPDX-License-Identifier: Apache-2.0

// Who believes what: a column for each node, a row for each thing that it can be
// wrong about. What differs from what most say is marked by a sign, a frame and a
// word for those who hear the page.

import { odd, Patience } from "./accord.js";
import { el, setAttribute, setText } from "./dom.js";
import { milliseconds, shape } from "./words.js";

// The rows about the node itself. Those with compared are held against the others.
const facts = [
  { title: "is", value: (s) => roles[s.role] ?? s.role },
  { title: "follows", value: (s, name) => name(s.view.leader) || "nobody", compared: true },
  { title: "version", value: (s) => `${s.view.version}.${s.view.revision}`,
    compared: (s) => String(s.view.version) },
  { title: "authority", value: (s) => (s.token > 0 ? `yes, token ${s.token}` : "no"), compared: true },
  { title: "lease left", value: (s) =>
    (s.lease_remaining_ms > 0 ? milliseconds(s.lease_remaining_ms) : "–") },
  { title: "up", value: (s) => milliseconds(s.uptime_ms) },
];

const roles = {
  leader: "★ leader", provisional: "☆ provisional", follower: "follower", joining: "+ joining",
};

// A Beliefs is the table.
export class Beliefs {
  #place;
  #shown = ""; // the nodes and members that the table has room for
  #cells = new Map();
  #patience = new Patience();

  constructor(place) {
    this.#place = place;
  }

  // draw shows looks, and returns how many rows have a disagreement.
  draw(looks, names, reference) {
    const members = addresses(looks);
    this.#build(looks, members, names);
    const name = (address) => (address ? names.get(address) ?? address : "");
    let rows = 0;
    for (const fact of facts) {
      const values = looks.map(({ status: s }) => (s ? fact.value(s, name) : undefined));
      const of = typeof fact.compared === "function" ? fact.compared : (s) => fact.value(s, name);
      rows += this.#row(fact.title, looks, values, fact.compared && looks.map(({ status: s }) =>
        s ? of(s) : undefined), reference);
    }
    for (const address of members) {
      const values = looks.map(({ status: s }) => {
        if (!s) return undefined;
        const m = s.view.members.find((m) => m.address === address);
        return m ? `${shape(m.status)} ${m.status}` : "unknown";
      });
      rows += this.#row(address, looks, values, values, reference);
    }
    this.#patience.turn();
    return rows;
  }

  // row fills the cells of one row; compared is what each of them is judged by.
  #row(title, looks, values, compared, reference) {
    const at = looks.indexOf(reference);
    const differs = compared ? odd(compared, compared[at]) : [];
    let marked = false;
    looks.forEach((look, i) => {
      const cell = this.#cells.get(`${title}\n${look.node.name}`);
      const key = `${title}\n${look.node.name}`;
      const mark = Boolean(differs[i]) && this.#patience.lasts(key, compared[i]);
      marked ||= mark;
      setText(cell.value, values[i] ?? "–");
      setText(cell.mark, mark ? "≠ " : "");
      setText(cell.spoken, mark ? " (differs)" : "");
      cell.td.classList.toggle("differs", mark);
      cell.td.classList.toggle("silent", values[i] === undefined);
      cell.td.classList.toggle("self", look.node.address === title);
    });
    const head = this.#cells.get(`${title}\n`);
    setText(head, marked ? "≠" : "");
    return marked ? 1 : 0;
  }

  // build makes the table anew where other nodes or members are to be shown.
  #build(looks, members, names) {
    for (const look of looks) this.#head(look);
    const shown = JSON.stringify([looks.map((l) => l.node.name), members, members.map((a) => names.get(a))]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#cells.clear();
    const columns = el("tr", {}, el("td", {}));
    for (const look of looks) {
      const note = el("span", { class: "note" });
      this.#cells.set(`head\n${look.node.name}`, note);
      columns.append(el("th", { scope: "col" }, el("span", { class: "name" }, look.node.name), note));
      this.#head(look);
    }
    const body = el("tbody");
    for (const fact of facts) body.append(this.#line(fact.title, fact.title, looks));
    const seen = el("tbody");
    seen.append(el("tr", { class: "divide" }, el("th", { scope: "rowgroup", colspan: looks.length + 1 },
      "sees as member")));
    for (const a of members) seen.append(this.#line(a, names.get(a) ?? a, looks));
    this.#place.replaceChildren(el("table", {},
      el("caption", { class: "spoken" }, "what each node says of itself and of each member"),
      el("thead", {}, columns), body, seen));
  }

  #head({ node, error, why }) {
    const note = this.#cells.get(`head\n${node.name}`);
    if (!note) return;
    setText(note, error || (node.cut ? "cut off" : node.self ? "this one" : "answers"));
    setAttribute(note, "title", why || null);
    note.classList.toggle("bad", Boolean(error) || Boolean(node.cut));
  }

  #line(key, title, looks) {
    const sign = el("span", { class: "sign", "aria-hidden": "true" });
    this.#cells.set(`${key}\n`, sign);
    const row = el("tr", {}, el("th", { scope: "row" }, title, sign));
    for (const { node } of looks) {
      const cell = {
        mark: el("span", { "aria-hidden": "true" }), value: el("span"),
        spoken: el("span", { class: "spoken" }),
      };
      cell.td = el("td", {}, cell.mark, cell.value, cell.spoken);
      this.#cells.set(`${key}\n${node.name}`, cell);
      row.append(cell.td);
    }
    return row;
  }
}

// addresses lists the members that anybody sees, in the order of the nodes.
function addresses(looks) {
  const all = new Set(looks.map((l) => l.node.address));
  for (const { status } of looks) {
    for (const m of status?.view.members ?? []) all.add(m.address);
  }
  return [...all];
}
