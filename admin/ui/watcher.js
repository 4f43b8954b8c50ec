// SPDX-License-Identifier: Apache-2.0

// Polling of all nodes. A node that does not respond does not delay the others.

import { ask, nodePath } from "./api.js";

const period = 500; // between two rounds, ms
const minPeriod = 200; // between two rounds if soon requests the second
const least = 30; // minimum pause before a round
const mostTurns = 2; // concurrent rounds: a node that hangs delays one of them
// Concurrent requests of a round. The browser has six connections, and a request that waits for one
// would look like a slow node.
const mostAsked = 5;
const listTimeout = 2000;
const statusTimeout = 900;

// A Watcher keeps the latest look at every node, sorted by name:
//   node    the entry of v1/nodes
//   status  the response of v1/status, or null
//   error   why status is null; "" while the node responds
//   at      time of the response, by performance.now()
export class Watcher {
  looks = new Map();
  lost = 0; // since when the server has not responded; 0 while it responds
  locked = false; // whether the server needs a token, while lost
  #onRound;
  #timer = 0;
  #due = 0; // when the timer fires
  #began = 0; // start of the newest round
  #turns = 0; // rounds in progress
  #asking = new Set();

  // onRound is called with the Watcher after each round.
  constructor(onRound) {
    this.#onRound = onRound;
  }

  // start polls until the page is closed.
  start() {
    this.#turn();
  }

  // soon starts the next round early, after a change. Frequent calls do not postpone it.
  soon() {
    this.#next(Math.max(least, this.#began + minPeriod - performance.now()));
  }

  // next schedules a round unless an earlier one is already scheduled.
  #next(rest) {
    const due = performance.now() + rest;
    if (this.#timer && this.#due <= due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#turn(), rest);
  }

  async #turn() {
    this.#timer = 0;
    if (this.#turns === mostTurns) return; // each round in progress schedules another
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
      for (const look of this.looks.values()) forget(look, "no connection");
    }
    this.#turns--;
    this.#onRound(this);
    this.#next(Math.max(least, period - (performance.now() - began)));
  }

  #list(nodes) {
    const before = this.looks;
    this.looks = new Map();
    nodes.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    for (const node of nodes) {
      const look = before.get(node.name) ?? { status: null, error: "loading", at: 0 };
      look.node = node;
      this.looks.set(node.name, look);
    }
  }

  async #look(look) {
    const { node } = look;
    if (node.paused) return forget(look, "paused");
    if (!node.alive) return forget(look, "pid" in node ? "not running" : "unreachable");
    if (this.#asking.has(node.name)) return;
    this.#asking.add(node.name);
    try {
      look.status = await ask(nodePath(node.name, "status"), statusTimeout);
      look.error = "";
      look.at = performance.now();
    } catch (error) {
      forget(look, "no response", error.message);
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
