// SPDX-License-Identifier: Apache-2.0

// Looks: what each node says of itself, asked again and again. A node that does not
// answer holds up no other.

import { ask, nodePath } from "./api.js";

const period = 500; // between two looks, ms
const listTimeout = 2000;
const statusTimeout = 900;

// A Watcher keeps the newest look at every node, in the order of their names:
//   node    the entry of v1/nodes
//   status  of v1/status, null where there is none
//   error   why not, in a few words; "" while the node answers
//   at      when it was read, by performance.now()
export class Watcher {
  looks = new Map();
  lost = 0; // when the server last began to be silent, 0 while it answers
  locked = false; // it answers that it wants its token, while lost
  #told;
  #timer = 0;
  #asking = new Set();

  constructor(told) {
    this.#told = told;
  }

  // start looks now, and for ever.
  start() {
    this.#turn();
  }

  // soon looks at once in place of at the next turn: something has happened.
  soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#turn(), 30);
  }

  async #turn() {
    clearTimeout(this.#timer);
    const began = performance.now();
    try {
      this.#list(await ask("v1/nodes", listTimeout));
      this.lost = 0;
      await Promise.all([...this.looks.values()].map((look) => this.#look(look)));
    } catch (error) {
      this.lost ||= performance.now();
      this.locked = error.code === "unauthorized";
      for (const look of this.looks.values()) forget(look, "the page has no connection");
    }
    this.#told(this);
    clearTimeout(this.#timer);
    const rest = Math.max(50, period - (performance.now() - began));
    this.#timer = setTimeout(() => this.#turn(), rest);
  }

  #list(nodes) {
    const before = this.looks;
    this.looks = new Map();
    nodes.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    for (const node of nodes) {
      const look = before.get(node.name) ?? { status: null, error: "not asked yet", at: 0 };
      look.node = node;
      this.looks.set(node.name, look);
    }
  }

  async #look(look) {
    const { node } = look;
    if (node.paused) return forget(look, "paused");
    if (!node.alive) return forget(look, "pid" in node ? "does not run" : "is not reached");
    if (this.#asking.has(node.name)) return;
    this.#asking.add(node.name);
    try {
      look.status = await ask(nodePath(node.name, "status"), statusTimeout);
      look.error = "";
      look.at = performance.now();
    } catch (error) {
      forget(look, "no answer", error.message);
    } finally {
      this.#asking.delete(node.name);
    }
  }
}

function forget(look, error, why = "") {
  look.status = null;
  look.error = error;
  look.why = why;
}
