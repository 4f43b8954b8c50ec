// SPDX-License-Identifier: Apache-2.0

// Fault injection for the nodes of a demo.

import { ask, nodePath } from "./api.js";
import { el, setAttribute, setText } from "./dom.js";

const timeout = 15000; // a restart waits until the process has exited

// Each button has one verb, or a pair of a verb and its inverse.
const buttons = [
  [{ verb: "kill", label: "Kill", fits: (n) => n.alive }],
  [{ verb: "restart", label: "Restart", fits: () => true }],
  [{ verb: "resume", label: "Resume", fits: (n) => n.paused },
    { verb: "pause", label: "Pause", fits: (n) => n.alive }],
  [{ verb: "heal", label: "Heal", fits: (n) => n.cut },
    { verb: "cut", label: "Cut", fits: (n) => n.alive }],
];

const done = {
  kill: (n) => `${n.name} was killed, like a crash. Restart starts it with its data directory.`,
  restart: (n) => `${n.name} was restarted with its data directory, as process ${n.pid}.`,
  pause: (n) => `${n.name} is paused, like a machine that hangs; its port stays open.`,
  resume: (n) => `${n.name} was resumed.`,
  cut: (n) => `${n.name} is isolated: all packets to and from the others are dropped.`,
  heal: (n) => `${n.name} was reconnected.`,
};

// A Faults has the buttons of all nodes.
export class Faults {
  #place;
  #result;
  #changed;
  #rows = new Map();

  // changed is called after each fault.
  constructor(place, result, changed) {
    this.#place = place;
    this.#result = result;
    this.#changed = changed;
  }

  // draw shows the buttons if the server is a demo, in which nodes have a pid.
  draw(looks) {
    const nodes = looks.map((l) => l.node).filter((n) => "pid" in n);
    this.#place.closest("section").hidden = !nodes.length;
    if (String([...this.#rows.keys()]) !== String(nodes.map((n) => n.name))) this.#build(nodes);
    for (const n of nodes) this.#row(n);
  }

  #build(nodes) {
    this.#rows.clear();
    this.#place.replaceChildren(...nodes.map((n) => {
      const row = { state: el("span", { class: "state" }), buttons: [] };
      for (const verbs of buttons) {
        const button = el("button", { type: "button" });
        button.addEventListener("click", () => this.#act(n.name, button));
        row.buttons.push({ button, verbs });
      }
      this.#rows.set(n.name, row);
      return el("div", { class: "row", role: "group", "aria-label": `faults of ${n.name}` },
        el("span", { class: "name" }, n.name), row.state, ...row.buttons.map((b) => b.button));
    }));
  }

  // row updates the buttons in place, so that they keep the focus.
  #row(n) {
    const row = this.#rows.get(n.name);
    const facts = [n.paused && "paused", n.cut && "isolated"].filter(Boolean).join(", ");
    setText(row.state, n.alive ? facts || `process ${n.pid}` : "not running");
    row.state.classList.toggle("bad", !n.alive || Boolean(facts));
    for (const { button, verbs } of row.buttons) {
      const now = verbs.find((v) => v.fits(n)) ?? verbs.at(-1);
      setText(button, now.label);
      setAttribute(button, "data-verb", now.verb);
      setAttribute(button, "aria-label", `${now.label} ${n.name}`);
      setAttribute(button, "aria-disabled", now.fits(n) ? null : "true");
    }
  }

  async #act(name, button) {
    const verb = button.dataset.verb;
    button.classList.add("busy");
    try {
      setText(this.#result, done[verb](await ask(nodePath(name, verb), timeout, "POST")));
      this.#result.dataset.mood = "done";
    } catch (error) {
      setText(this.#result, `Failed: ${error.message}.`);
      this.#result.dataset.mood = "bad";
    } finally {
      button.classList.remove("busy");
      this.#changed();
    }
  }
}
