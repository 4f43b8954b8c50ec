// SPDX-License-Identifier: Apache-2.0

// The timeline: a list of changes, newest first, and a band of the leaders of the last two minutes.

import { el, setAttribute, svg } from "./dom.js";
import { clock, milliseconds } from "./words.js";

const maxEntries = 200;
const span = 120000; // of the band, ms
const band = { height: 34, top: 2, bottom: 18 };
const letter = 7; // typical width of a letter in the band
const maxTerms = 300; // in the band

const signs = { election: "★", lost: "○", join: "+", fail: "×", fault: "!", mend: "~", note: "·" };
const spoken = {
  election: "election", lost: "leader lost", join: "join", fail: "failure", fault: "fault", mend: "mended",
  note: "note",
};

// A TimeLine is the list.
export class TimeLine {
  #list;
  #entries = []; // sorted, oldest first

  constructor(list) {
    this.#list = list;
  }

  // add inserts an entry in order of time. It replaces an entry with the same key.
  add({ at, kind, text, detail, took, key }) {
    const known = key ? this.#entries.findIndex((e) => e.key === key) : -1;
    if (known >= 0) this.#entries.splice(known, 1)[0].item.remove();
    const item = el("li", { "data-kind": kind },
      el("time", { datetime: at.toISOString() }, clock(at)),
      el("span", { class: "sign", "aria-hidden": "true" }, signs[kind] ?? "·"),
      el("span", { class: "spoken" }, `${spoken[kind] ?? kind}: `),
      el("span", { class: "text" }, text));
    if (took !== undefined) item.append(tookOf(took));
    if (detail) item.append(el("span", { class: "detail" }, detail));
    const i = this.#entries.findIndex((e) => e.at > at);
    const next = i < 0 ? this.#entries.length : i;
    this.#entries.splice(next, 0, { at, key, item });
    const older = this.#entries[next - 1]?.item;
    if (older) older.before(item);
    else this.#list.append(item);
    if (this.#entries.length > maxEntries) this.#entries.shift().item.remove();
  }
}

// tookOf shows a duration as a bar, on a logarithmic scale from 10 ms to 10 s, and as a number.
function tookOf(ms) {
  const share = Math.min(1, Math.max(0.04, Math.log10(Math.max(10, ms) / 10) / 3));
  return el("span", { class: "took" },
    svg("svg", { viewBox: "0 0 60 8", "aria-hidden": "true" },
      svg("rect", { class: "all", width: 60, height: 8 }),
      svg("rect", { class: "part", width: (share * 60).toFixed(1), height: 8 })),
    el("span", {}, milliseconds(ms)));
}

// A TermBand is the band of leaders.
export class TermBand {
  #root;
  #terms = []; // { from, name, version, token }, oldest first; name is empty if there is no leader

  constructor(root) {
    this.#root = root;
  }

  // draw adds the current leader and draws the band.
  draw(names, reference) {
    const s = reference?.status;
    const leads = s?.token > 0;
    const term = {
      name: leads ? names.get(s.view.leader) ?? s.view.leader : "",
      version: leads ? s.token_text : "", token: leads ? s.fencing_token : "",
    };
    const last = this.#terms.at(-1);
    const now = Date.now();
    if (!last || last.name !== term.name || last.token !== term.token) {
      const since = leads && s.term_since ? Date.parse(s.term_since) : now;
      this.#terms.push({ ...term, from: Math.max(last?.from ?? 0, Math.min(since, now)) });
    }
    while (this.#terms.length > maxTerms || this.#terms[1]?.from < now - span) this.#terms.shift();
    this.#paint(now);
  }

  #paint(now) {
    const width = this.#root.clientWidth;
    setAttribute(this.#root, "viewBox", `0 0 ${width} ${band.height}`);
    const x = (t) => Math.max(0, width * (1 - (now - t) / span));
    const parts = [];
    this.#terms.forEach((term, i) => {
      const from = x(term.from);
      const to = i + 1 < this.#terms.length ? x(this.#terms[i + 1].from) : width;
      parts.push(svg("rect", {
        class: term.name ? `term turn${BigInt(term.version) % 2n}` : "gap", x: from.toFixed(1), y: band.top,
        width: Math.max(1, to - from).toFixed(1), height: band.bottom - band.top,
      }, svg("title", {}, term.name ? `${term.name}, token ${term.token}` : "no leader")));
      if (term.name && to - from > term.name.length * letter + 10) {
        parts.push(svg("text", { class: "label", x: (from + 5).toFixed(1), y: 14 }, term.name));
      }
    });
    for (const [seconds, anchor] of [[120, "start"], [60, "middle"], [0, "end"]]) {
      parts.push(svg("text", {
        class: "tick", x: x(now - seconds * 1000), y: 31, "text-anchor": anchor,
      }, seconds ? `${seconds} s ago` : "now"));
    }
    this.#root.replaceChildren(...parts);
    const leaders = this.#terms.map((t) => t.name || "none").join(", then ");
    setAttribute(this.#root, "aria-label", `leaders of the last two minutes: ${leaders}`);
  }
}
