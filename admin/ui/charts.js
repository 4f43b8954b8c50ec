// SPDX-License-Identifier: Apache-2.0

// The charts: round-trip times and rates of one node, drawn by uPlot. Lines differ in dash pattern
// and colour, and the legend shows the newest value of each.

import { colour, el, setAttribute, setText, svg } from "./dom.js";
import { figure, milliseconds } from "./words.js";
import { Meter } from "./rates.js";

const kinds = [
  { key: "trips", title: "Round-trip time to", write: milliseconds, axis: (v) => `${v} ms` },
  { key: "frames", title: "Protocol messages per second", write: figure, axis: (v) => String(v) },
  { key: "events", title: "Application events per second", write: figure, axis: (v) => String(v) },
];

const dashes = [[], [7, 3], [2, 3], [10, 3, 2, 3]];
const hues = 4; // custom properties --line-1 and so on
const height = 112;

// A Charts shows the measurements of a selected node.
export class Charts {
  #meters = new Map(); // by the name of the node
  #select;
  #panels;
  #drawn = "";

  constructor(place, select) {
    this.#select = select;
    this.#panels = kinds.map((kind) => {
      const panel = {
        kind, plot: null, canvas: el("div", { class: "canvas", role: "img", "aria-label": "no data yet" }),
        key: el("ul", { class: "legend" }), items: new Map(),
      };
      place.append(el("figure", {}, el("figcaption", {}, kind.title), panel.canvas, panel.key));
      return panel;
    });
    const redraw = () => {
      this.#drawn = "";
      this.#paint();
    };
    select.addEventListener("change", redraw);
    addEventListener("recolour", redraw);
    addEventListener("resize", () => this.#resize());
  }

  // draw adds the looks to the windows, and draws the selected node, by default the reference.
  draw(looks, names, reference) {
    for (const look of looks) {
      if (!this.#meters.has(look.node.name)) this.#meters.set(look.node.name, new Meter());
      this.#meters.get(look.node.name).add(look, names);
    }
    const options = ["", ...looks.map((l) => l.node.name)];
    for (const name of this.#meters.keys()) {
      if (!options.includes(name)) this.#meters.delete(name);
    }
    if (String([...this.#select.options].map((o) => o.value)) !== String(options)) {
      const chosen = this.#select.value;
      this.#select.replaceChildren(...options.map((v) => el("option", { value: v }, v || "the leader")));
      this.#select.value = options.includes(chosen) ? chosen : "";
    }
    this.leader = reference?.node.name ?? this.leader ?? looks[0]?.node.name;
    this.#paint();
  }

  #paint() {
    const name = this.#select.value || this.leader;
    const meter = this.#meters.get(name);
    if (!meter) return;
    for (const panel of this.#panels) {
      const window = meter[panel.kind.key];
      const lines = [...window.columns.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      const shown = JSON.stringify([name, lines, this.#drawn === ""]);
      if (panel.shown !== shown) this.#build(panel, lines);
      panel.shown = JSON.stringify([name, lines, false]);
      panel.plot.setData([window.times, ...lines.map((l) => window.columns.get(l))]);
      const newest = lines.map((l) => [l, panel.kind.write(window.columns.get(l).at(-1) ?? NaN)]);
      for (const [line, value] of newest) setText(panel.items.get(line), value);
      setAttribute(panel.canvas, "aria-label", `${panel.kind.title}, measured by ${name}: ` +
        (newest.map((n) => n.join(" ")).join(", ") || "no data yet"));
    }
    this.#drawn = name;
  }

  #build(panel, lines) {
    panel.plot?.destroy();
    panel.items.clear();
    panel.key.replaceChildren(...lines.map((line, i) => {
      const value = el("span", { class: "value" });
      panel.items.set(line, value);
      return el("li", {}, svg("svg", { viewBox: "0 0 22 6", "aria-hidden": "true" }, svg("line", {
        x1: 0, x2: 22, y1: 3, y2: 3, class: `line-${(i % hues) + 1}`,
        "stroke-dasharray": dash(i).join(" ") || null,
      })), el("span", {}, line), value);
    }));
    const ink = { stroke: colour("--quiet"), grid: { stroke: colour("--hair"), width: 1 },
      ticks: { show: false }, font: "11px system-ui, sans-serif" };
    panel.plot = new uPlot({
      width: widthOf(panel), height, legend: { show: false }, cursor: { show: false },
      padding: [8, 24, 0, 0],
      scales: {
        x: { range: (_, min, max) => [Math.min(min, max - 30), max] },
        y: { range: (_, __, max) => [0, (max || 1) * 1.15] },
      },
      axes: [
        { ...ink, size: 20, space: 70, grid: { show: false }, values: (u, ticks) => ticks.map(clockOf) },
        { ...ink, size: 54, space: 26, values: (u, ticks) => ticks.map((t) => panel.kind.axis(t)) },
      ],
      series: [{}, ...lines.map((line, i) => ({
        label: line, stroke: colour(`--line-${(i % hues) + 1}`), dash: dash(i), width: 1.5,
        points: { show: false },
      }))],
    }, [[], ...lines.map(() => [])], panel.canvas);
  }

  #resize() {
    for (const panel of this.#panels) panel.plot?.setSize({ width: widthOf(panel), height });
  }
}

const dash = (i) => dashes[Math.floor(i / hues + i) % dashes.length];
const widthOf = (panel) => Math.max(200, Math.floor(panel.canvas.clientWidth));

function clockOf(seconds) {
  const d = new Date(seconds * 1000);
  return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}
