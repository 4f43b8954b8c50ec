// SPDX-License-Identifier: Apache-2.0

// Faults: what can be done to each node of a demo, and what came of it.

import { ask, nodePath } from "./api.js";
import { el, setAttribute, setText } from "./dom.js";

const timeout = 15000; // a restart waits for the end of a process

// Each button has one verb, or two of which one undoes the other.
const buttons = [
  [{ verb: "kill", label: "Kill", fits: (n) => n.alive }],
  [{ verb: "restart", label: "Restart", fits: () => true }],
  [{ verb: "resume", label: "Resume", fits: (n) => n.paused },
    { verb: "pause", label: "Pause", fits: (n) => n.alive }],
  [{ verb: "heal", label: "Heal", fits: (n) => n.cut },
    { verb: "cut", label: "Cut", fits: (n) => n.alive }],
];

const done = {
  kill: (n) => `${n.name} was killed, as by a crash. Restart starts it again with its store.`,
  restart: (n) => `${n.name} was started again, with its store, as process ${n.pid}.`,
  pause: (n) => `${n.name} stands still, as a machine that hangs does; its port stays open.`,
  resume: (n) => `${n.name} goes on where it stood still.`,
  cut: (n) => `${n.name} is cut off: every packet between it and the others is lost.`,
  heal: (n) => `${n.name} is connected to the others again.`,
};

// A Faults is the buttons of all nodes.
export class Faults {
  #place;
  #said;
  #changed;
  #rows = new Map();

  // changed is called when something was done.
  constructor(place, said, changed) {
    this.#place = place;
    this.#said = said;
    this.#changed = changed;
  }

  // draw shows the buttons where the server offers them: a node of a demo has a
  // process.
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
      return el("div", { class: "row", role: "group", "aria-label": `do to ${n.name}` },
        el("span", { class: "name" }, n.name), row.state, ...row.buttons.map((b) => b.button));
    }));
  }

  // row writes the buttons in place, so that who has one in focus keeps it.
  #row(n) {
    const row = this.#rows.get(n.name);
    const facts = [n.paused && "paused", n.cut && "cut off"].filter(Boolean).join(", ");
    setText(row.state, n.alive ? facts || `process ${n.pid}` : "does not run");
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
      setText(this.#said, done[verb](await ask(nodePath(name, verb), timeout, "POST")));
      this.#said.dataset.mood = "done";
    } catch (error) {
      setText(this.#said, `Not done: ${error.message}.`);
      this.#said.dataset.mood = "bad";
    } finally {
      button.classList.remove("busy");
      this.#changed();
    }
  }
}
