// SPDX-License-Identifier: Apache-2.0

// Changes: timeline entries from the differences between two rounds of looks. An entry is { at: Date,
// kind, text, detail, took, key }: took is the duration of an election in ms, and an entry replaces
// an earlier one with the same key.

import { list, milliseconds } from "./words.js";

const maxElections = 500; // more than the timeline shows

// A Changes compares each round with the previous one.
export class Changes {
  #elections = new Map(); // { own } by version: whether the winner reported the election
  #before = null; // { leader, members }
  #nodes = new Map(); // entries of v1/nodes by name
  #add;

  constructor(add) {
    this.#add = add;
  }

  // compare adds the differences between these looks and the previous ones.
  compare(looks, names, reference, members) {
    this.#processes(looks);
    for (const { node, status } of looks) {
      const e = status?.last_election;
      if (e) this.#election(e, names, e.leader === node.address);
    }
    if (!reference) return;
    const s = reference.status;
    const now = { leader: s.token > 0 ? s.view.leader : "", members };
    const before = this.#before;
    this.#before = now;
    if (!before) return;
    const name = (address) => names.get(address) ?? address;
    if (before.leader && !now.leader) {
      this.#say("lost", `${name(before.leader)} lost its authority`, s.no_leader);
    }
    for (const [address, m] of now.members) {
      const old = before.members.get(address);
      if (old?.status !== m.status) this.#member(name(address), old?.status, m.status);
    }
    for (const [address, old] of before.members) {
      if (!now.members.has(address) && old.status !== "removed") {
        this.#member(name(address), old.status, "removed");
      }
    }
  }

  // addElections adds the elections in the response of v1/elections.
  addElections(elections, names) {
    for (const e of elections) this.#election(e, names, false);
  }

  // election adds an election. The report of the winner, which knows the votes, replaces any other.
  #election(e, names, own) {
    const known = this.#elections.get(e.version_text);
    if (known && (known.own || !own)) return;
    this.#elections.set(e.version_text, { own });
    if (this.#elections.size > maxElections) this.#elections.delete(this.#elections.keys().next().value);
    const name = (address) => names.get(address) ?? address;
    const from = e.before && e.before !== e.leader ? ` after ${name(e.before)}` : "";
    const details = [causes[e.cause]?.(e.before ? name(e.before) : "it", e.rule) ?? e.cause];
    if (e.votes.length > 1) details.push(`votes of ${list(e.votes.map(name), 8)}`);
    if (own) details.push(...stepsOf(e));
    this.#add({
      key: `election ${e.version_text}`, at: new Date(e.ended), kind: "election", took: e.took_ms,
      text: `${name(e.leader)} elected${from}, version ${e.version_text}`, detail: details.join("; "),
    });
  }

  #member(name, was, is) {
    const kind = is === "active" ? "join" : is === "joining" ? "note" : "fail";
    const text = { active: was === "unreachable" ? "is reachable again" : "joined", joining: "is joining",
      unreachable: "is unreachable", leaving: "is leaving", removed: "was removed" }[is] ?? `is ${is}`;
    this.#say(kind, `${name} ${text}`);
  }

  // processes adds the changes of the processes of a demo.
  #processes(looks) {
    for (const { node } of looks) {
      const old = this.#nodes.get(node.name);
      this.#nodes.set(node.name, node);
      if (!old || !("pid" in node)) continue;
      const name = node.name;
      if (old.alive && !node.alive) this.#say("fault", `the process of ${name} exited`);
      if (node.alive && old.pid !== node.pid) this.#say("mend", `${name} started as process ${node.pid}`);
      if (!old.paused && node.paused) this.#say("fault", `${name} was paused`);
      if (old.paused && !node.paused && node.alive) this.#say("mend", `${name} was resumed`);
      if (!old.cut && node.cut) this.#say("fault", `${name} was isolated`);
      if (old.cut && !node.cut && node.alive) this.#say("mend", `${name} was reconnected`);
    }
  }

  #say(kind, text, detail = "") {
    this.#add({ at: new Date(), kind, text, detail });
  }
}

// stepsOf describes the steps of the winner: the silence before the first step, and the time of
// each step since the first.
function stepsOf({ steps }) {
  const taken = steps.filter((s) => s.name !== "started" && s.name !== "heard");
  if (!taken.length) return [];
  const first = taken[0].after_ms;
  const texts = taken.map((s, i) => (i ? `${s.name} +${milliseconds(s.after_ms - first)}` : s.name));
  const silent = steps[0].name === "heard" ? [`silent for ${milliseconds(first)}`] : [];
  return [...silent, `steps: ${texts.join(", ")}`];
}

// The causes of an election.
const causes = {
  start: () => "start: there was no leader before",
  crash: (before) => `crash: the process of ${before} has exited`,
  silence: (before) => `silence: ${before} did not respond`,
  "hand-over": (before) => `hand-over: ${before} gave up the leadership`,
  "lease lost": (before) => `lease lost: ${before} did not reach a majority in time`,
  conflict: (before, rule) => `conflict: of two leaders, this one had the better claim (${rule})`,
  outvoted: (before) => `outvoted: it was elected before this node missed ${before}`,
  raised: () => "raised: the same leader continues with a higher version",
};
