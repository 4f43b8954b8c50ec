// SPDX-License-Identifier: Apache-2.0

// The ring: members, their connections, the leader and its lease. Seeds are squares, other members
// are circles; the status is a sign and a word. The units are CSS pixels, so that text has the same
// size on every screen. If there are many members, their names are arranged like spokes.

import { setAttribute, setText, svg } from "./dom.js";
import { brief, milliseconds, shape } from "./words.js";

const most = 6; // more members are drawn as a wheel
const letters = { few: 14, many: 9 }; // maximum length of a name
const roomy = 7; // minimum radius with room for a sign
const widths = { least: 300, most: 460 };
const height = 324; // of a ring with few members
const margin = { x: 65, top: 44, bottom: 68 }; // around the centers of the members
const spoke = 82; // room for a name outside the wheel
const gap = 7; // between a node and the arc of its lease

// A Ring draws into an SVG element.
export class Ring {
  #root;
  #shown = "";
  #nodes = new Map(); // by address
  #links = new Map(); // by both addresses
  #lease = { until: 0, full: 1, arc: null };

  constructor(root) {
    this.#root = root;
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
    setAttribute(this.#root, "aria-label", `leader: ${leader || "none"}; ` +
      members.map((m) => `${m.name}${m.seed ? " (seed)" : ""}: ${m.word}`).join("; "));
  }

  #build(members) {
    const width = Math.min(widths.most, Math.max(widths.least, this.#root.parentNode.clientWidth));
    const shown = JSON.stringify([width, members.map((m) => [m.address, m.name, m.seed])]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#nodes.clear();
    this.#links.clear();
    const links = svg("g", { class: "links" });
    const nodes = svg("g", { class: "nodes" });
    const many = members.length > most;
    const high = many ? width : height;
    setAttribute(this.#root, "viewBox", `0 0 ${width} ${high}`);
    setAttribute(this.#root, "width", width);
    setAttribute(this.#root, "height", high);
    const called = brief(members.map((m) => m.name), many ? letters.many : letters.few);
    const spots = many ? wheel(width, members.length) : oval(width, members.length);
    members.forEach((m, i) => nodes.append(this.#place(m, spots[i], called.get(m.name))));
    members.forEach((a, i) => members.slice(i + 1).forEach((b) => {
      const [from, to] = [this.#nodes.get(a.address), this.#nodes.get(b.address)];
      const line = svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y }, svg("title"));
      this.#links.set(pair(a.address, b.address), line);
      links.append(line);
    }));
    this.#lease.arc = svg("circle", { class: "lease", fill: "none", visibility: "hidden" });
    this.#root.replaceChildren(links, this.#lease.arc, nodes);
  }

  #place(m, spot, called) {
    const { x, y, size, turn } = spot;
    const body = m.seed ?
      svg("rect", { class: "body", x: -size, y: -size, width: 2 * size, height: 2 * size, rx: size / 5 }) :
      svg("circle", { class: "body", r: size });
    const letter = Math.min(16, 1.6 * size);
    const parts = { ...spot, title: svg("title"), sign: svg("text", { class: "in", y: 0.3 * letter }) };
    parts.sign.style.fontSize = `${letter}px`;
    parts.group = svg("g", { transform: `translate(${x} ${y})` }, parts.title, body, parts.sign);
    if (turn === undefined) {
      parts.word = svg("text", { class: "word", y: size + 40 });
      parts.group.append(svg("text", { class: "name", y: size + 26 }, called), parts.word);
    } else {
      const left = Math.cos(turn) < 0;
      const name = svg("text", {
        class: `name spoke ${left ? "left" : ""}`, x: (left ? -1 : 1) * (1.25 * size + gap + 5), y: 4,
        transform: `rotate(${((turn * 180) / Math.PI + (left ? 180 : 0)).toFixed(2)})`,
      }, called);
      if (size < roomy) {
        parts.sign.remove();
        parts.sign = svg("tspan", { dx: 3 });
        name.append(parts.sign);
      }
      parts.group.append(name);
    }
    this.#nodes.set(m.address, parts);
    return parts.group;
  }

  #node(m, status) {
    const parts = this.#nodes.get(m.address);
    const leads = status?.view.leader === m.address;
    const role = leads ? (status.token > 0 ? "leader" : "provisional") : "";
    setAttribute(parts.group, "data-status", m.status);
    setAttribute(parts.group, "data-role", role || null);
    setText(parts.sign, role === "leader" ? "★" : role ? "☆" : m.sign);
    setText(parts.title, [`${m.name}: ${m.word}`, ...m.traits].join("\n"));
    if (parts.word) setText(parts.word, [m.word, m.seed && "seed", ...m.traits.slice(0, 1)].filter(Boolean).join(" · "));
  }
  // connect draws a connection as reported by both sides.
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
      const up = sides.filter((p) => p?.connected && p.known);
      const last = sides.some((p) => p?.connected && !p.known); // may be outdated
      const state = !sides.length || (last && !up.length) ? "unknown" : ["none", "one", "both"][up.length];
      setAttribute(line, "class", state);
      const leads = [a, b].some((m) => m.address === status?.view.leader);
      setAttribute(line, "data-leads", leads ? "" : null);
      const rtt = Math.min(...up.map((p) => p.rtt_ms));
      setText(line.firstChild, `${a.name} – ${b.name}: ` + (up.length ?
        `connected${state === "one" ? " on one side only" : ""}, ${milliseconds(rtt)}` :
        last ? "unknown, last connected" : "no connection"));
    }));
  }

  // hold sets the remaining and the full lease of the leader.
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
    setAttribute(lease.arc, "transform", `translate(${leader.x} ${leader.y}) rotate(-90)`);
    this.#run();
  }

  // run animates the lease between two looks.
  #run() {
    const { arc, until, full, length } = this.#lease;
    if (!arc || !length) return;
    const left = Math.max(0, until - performance.now());
    setAttribute(arc, "stroke-dasharray", `${((left / full) * length).toFixed(1)} ${length.toFixed(1)}`);
  }
}

const pair = (a, b) => (a < b ? `${a} ${b}` : `${b} ${a}`);

// oval returns the positions of a few members. It is wider than it is high, since names are below
// the members.
function oval(width, count) {
  const radius = {
    x: width / 2 - margin.x, y: (height - margin.top - margin.bottom) / 2,
  };
  return Array.from({ length: count }, (_, i) => {
    const turn = turnOf(i, count);
    return {
      x: width / 2 + (count > 1 ? radius.x * Math.cos(turn) : 0),
      y: margin.top + radius.y + (count > 1 ? radius.y * Math.sin(turn) : 0), size: 20,
    };
  });
}

// wheel returns the positions of many members, with room for a name outside each of them.
function wheel(width, count) {
  const share = (0.34 * 2 * Math.PI) / count; // of the radius, to keep squares from touching
  const size = Math.min(15, ((width / 2 - spoke) * share) / (1 + share));
  const radius = width / 2 - spoke - size;
  return Array.from({ length: count }, (_, i) => {
    const turn = turnOf(i, count);
    return {
      x: width / 2 + radius * Math.cos(turn), y: width / 2 + radius * Math.sin(turn), size, turn,
    };
  });
}

const turnOf = (i, count) => (i / count) * 2 * Math.PI - Math.PI / 2;

// membersOf returns the members to draw: first the nodes in order, then all other members.
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
  const sign = fact ? { paused: "‖" }[fact] ?? "×" : status === "active" ? "" : shape(status);
  return { address, name, status, seed: Boolean(m?.seed), sign, word: fact || status, traits: traitsOf(m) };
}

// traitsOf returns what a member states about itself, as lines.
function traitsOf(m) {
  const preference = m?.preference ?? 0;
  const labels = Object.entries(m?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [preference === "never" ? "witness" : preference > 0 && `preference ${preference}`, ...labels].filter(Boolean);
}
