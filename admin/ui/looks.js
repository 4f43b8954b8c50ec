// SPDX-License-Identifier: Apache-2.0

// Looks: what each node says of itself, asked again and again. A node that does not
// answer holds up no other.

import { ask, nodePath } from "./api.js";

const period = 500; // between two looks, ms
const hurry = 200; // the same where something happens all the time
const least = 30; // from what has happened to the look at it
const mostTurns = 2; // at once: a node that hangs holds one of them up
const mostAsked = 5; // at once in a turn: what waits for one of the browser's six connections
// would seem to be a node that is slow
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
  #due = 0; // when the timer fires
  #began = 0; // when the newest turn did
  #turns = 0; // under way
  #asking = new Set();

  constructor(told) {
    this.#told = told;
  }

  // start looks now, and for ever.
  start() {
    this.#turn();
  }

  // soon looks at once in place of at the next turn: something has happened. What
  // happens all the time does not put the look off.
  soon() {
    this.#next(Math.max(least, this.#began + hurry - performance.now()));
  }

  // next begins a turn after a rest, unless one will begin before that.
  #next(rest) {
    const due = performance.now() + rest;
    if (this.#timer && this.#due <= due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#turn(), rest);
  }

  async #turn() {
    this.#timer = 0;
    if (this.#turns === mostTurns) return; // each of them begins another
    this.#turns++;
    const began = this.#began = performance.now();
    try {
      this.#list(await ask("v1/nodes", listTimeout));
      this.lost = 0;
      const waiting = [...this.looks.values()];
      await Promise.all(Array.from({ length: mostAsked }, async () => {
        while (waiting.length) await this.#look(waiting.shift());
      }));
    } catch (error) {
      this.lost ||= performance.now();
      this.locked = error.code === "unauthorized";
      for (const look of this.looks.values()) forget(look, "the page has no connection");
    }
    this.#turns--;
    this.#told(this);
    this.#next(Math.max(least, period - (performance.now() - began)));
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
