// SPDX-License-Identifier: Apache-2.0

// The ring: members, the connections between them, who leads, and its lease.
// Squares are seeds, circles are not; status is a sign and a word.

import { setAttribute, setText, svg } from "./dom.js";
import { milliseconds, shape } from "./words.js";

const width = 460, height = 324;
const centre = { x: width / 2, y: height / 2 - 12 };
const radii = { x: 165, y: 106 };
const gap = 7; // between a node and the arc of its lease

// A Ring draws into an element of SVG.
export class Ring {
  #root;
  #shown = "";
  #nodes = new Map(); // by address
  #links = new Map(); // by both addresses
  #lease = { until: 0, full: 1, arc: null };

  constructor(root) {
    this.#root = root;
    setAttribute(root, "viewBox", `0 0 ${width} ${height}`);
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const frame = () => {
      if (!still.matches) this.#run();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  // draw shows the members as most nodes see them, and the leader of the reference.
  draw(looks, names, reference, seen) {
    const status = reference?.status;
    const members = membersOf(looks, seen, names);
    this.#build(members);
    for (const m of members) this.#node(m, status);
    this.#connect(looks, members, status);
    this.#hold(status);
    const leader = status?.view.leader ? names.get(status.view.leader) ?? status.view.leader : "";
    setAttribute(this.#root, "aria-label", `${leader || "nobody"} leads; ` +
      members.map((m) => `${m.name}${m.seed ? " (seed)" : ""}: ${m.word}`).join("; "));
  }

  #build(members) {
    const shown = JSON.stringify(members.map((m) => [m.address, m.name, m.seed]));
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#nodes.clear();
    this.#links.clear();
    const links = svg("g", { class: "links" });
    const nodes = svg("g", { class: "nodes" });
    const size = members.length > 14 ? 11 : members.length > 8 ? 15 : 20;
    members.forEach((m, i) => {
      const turn = (i / members.length) * 2 * Math.PI - Math.PI / 2;
      const alone = members.length === 1;
      const at = {
        x: centre.x + (alone ? 0 : radii.x * Math.cos(turn)),
        y: centre.y + (alone ? 0 : radii.y * Math.sin(turn)),
      };
      nodes.append(this.#place(m, at, size));
    });
    members.forEach((a, i) => members.slice(i + 1).forEach((b) => {
      const [from, to] = [this.#nodes.get(a.address).at, this.#nodes.get(b.address).at];
      const line = svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y }, svg("title"));
      this.#links.set(pair(a.address, b.address), line);
      links.append(line);
    }));
    this.#lease.arc = svg("circle", { class: "lease", fill: "none", visibility: "hidden" });
    this.#root.replaceChildren(links, this.#lease.arc, nodes);
  }

  #place(m, at, size) {
    const body = m.seed ?
      svg("rect", { class: "body", x: -size, y: -size, width: 2 * size, height: 2 * size, rx: 4 }) :
      svg("circle", { class: "body", r: size });
    const parts = {
      at, size, body,
      sign: svg("text", { class: "in", y: 5 }),
      name: svg("text", { class: "name", y: size + 26 }),
      word: svg("text", { class: "word", y: size + 40 }),
    };
    parts.group = svg("g", { transform: `translate(${at.x} ${at.y})` }, body, parts.sign,
      parts.name, parts.word);
    this.#nodes.set(m.address, parts);
    return parts.group;
  }

  #node(m, status) {
    const parts = this.#nodes.get(m.address);
    const leads = status?.view.leader === m.address;
    const role = leads ? (status.token > 0 ? "leader" : "provisional") : "";
    setAttribute(parts.group, "data-status", m.status);
    setAttribute(parts.group, "data-role", role || null);
    setText(parts.sign, role === "leader" ? "★" : role ? "☆" : m.status === "active" ? "" : m.sign);
    setText(parts.name, m.name);
    setText(parts.word, m.word + (m.seed ? " · seed" : ""));
  }

  // connect draws a link as each side of it has it.
  #connect(looks, members, status) {
    const has = new Map();
    for (const look of looks) {
      for (const p of look.status?.peers ?? []) {
        has.set(`${look.node.address} ${p.address}`, p);
      }
    }
    const answers = new Set(looks.filter((l) => l.status).map((l) => l.node.address));
    members.forEach((a, i) => members.slice(i + 1).forEach((b) => {
      const line = this.#links.get(pair(a.address, b.address));
      const sides = [[a, b], [b, a]].filter(([x]) => answers.has(x.address))
        .map(([x, y]) => has.get(`${x.address} ${y.address}`));
      const up = sides.filter((p) => p?.connected);
      const state = !sides.length ? "unknown" : ["none", "one", "both"][up.length];
      setAttribute(line, "class", state);
      const leads = [a, b].some((m) => m.address === status?.view.leader);
      setAttribute(line, "data-leads", leads ? "" : null);
      const rtt = Math.min(...up.map((p) => p.rtt_ms));
      setText(line.firstChild, `${a.name} – ${b.name}: ` + (up.length ?
        `connected${state === "one" ? " in the eyes of one" : ""}, ${milliseconds(rtt)}` : "no connection"));
    }));
  }

  // hold notes how long the leader keeps its authority, and what a full lease is.
  #hold(status) {
    const lease = this.#lease;
    const leader = this.#nodes.get(status?.view.leader);
    const left = status?.lease_remaining_ms ?? 0;
    setAttribute(lease.arc, "visibility", leader && left > 0 ? "visible" : "hidden");
    if (!leader || left <= 0) return;
    lease.full = Math.max(lease.full, left);
    lease.until = performance.now() + left;
    lease.length = 2 * Math.PI * (leader.size * 1.25 + gap);
    setAttribute(lease.arc, "r", leader.size * 1.25 + gap);
    setAttribute(lease.arc, "transform", `translate(${leader.at.x} ${leader.at.y}) rotate(-90)`);
    this.#run();
  }

  // run lets the lease run down between two looks.
  #run() {
    const { arc, until, full, length } = this.#lease;
    if (!arc || !length) return;
    const left = Math.max(0, until - performance.now());
    setAttribute(arc, "stroke-dasharray", `${((left / full) * length).toFixed(1)} ${length.toFixed(1)}`);
  }
}

const pair = (a, b) => (a < b ? `${a} ${b}` : `${b} ${a}`);

// membersOf is what there is to draw: the nodes in their order, and who else is seen.
function membersOf(looks, seen, names) {
  const all = looks.map(({ node, error }) => member(node.address, node.name, seen.get(node.address),
    node.alive && !node.paused ? "" : error));
  for (const [address, m] of seen) {
    if (!looks.some((l) => l.node.address === address)) {
      all.push(member(address, names.get(address) ?? address, m, ""));
    }
  }
  return all;
}

function member(address, name, m, fact) {
  const status = m?.status ?? "unknown";
  return { address, name, status, seed: Boolean(m?.seed), sign: shape(status), word: fact || status };
}
