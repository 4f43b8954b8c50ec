// SPDX-License-Identifier: Apache-2.0

// The story: what happened, told from the differences between two looks. Each entry
// is { at: Date, kind, text, detail, took, key }: took is the time of an election in
// ms, and an entry with the key of an earlier one replaces it.

import { list, milliseconds } from "./words.js";

const maxElections = 500; // more than the time line shows

// A Story remembers enough to tell what is new.
export class Story {
  #elections = new Map(); // by version: { own }, whether the winner told of it
  #before = null; // { leader, members }
  #nodes = new Map(); // entries of v1/nodes by name
  #add;

  constructor(add) {
    this.#add = add;
  }

  // tell adds what is new in these looks.
  tell(looks, names, reference, members) {
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
      this.#say("lost", `${name(before.leader)} has no authority any more`, s.no_leader);
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

  // remember adds elections of before the page was opened, the answer of v1/elections.
  remember(elections, names) {
    for (const e of elections) this.#election(e, names, false);
  }

  // election adds one, or tells it better: the node that won knows the votes, and the
  // others at most their own.
  #election(e, names, own) {
    const told = this.#elections.get(e.version_text);
    if (told && (told.own || !own)) return;
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
    const text = { active: was === "unreachable" ? "answers again" : "joined", joining: "joins",
      unreachable: "is unreachable", leaving: "leaves", removed: "was removed" }[is] ?? `is ${is}`;
    this.#say(kind, `${name} ${text}`);
  }

  // processes tells what became of the nodes of a demo.
  #processes(looks) {
    for (const { node } of looks) {
      const old = this.#nodes.get(node.name);
      this.#nodes.set(node.name, node);
      if (!old || !("pid" in node)) continue;
      const name = node.name;
      if (old.alive && !node.alive) this.#say("fault", `the process of ${name} ended`);
      if (node.alive && old.pid !== node.pid) this.#say("mend", `${name} runs as process ${node.pid}`);
      if (!old.paused && node.paused) this.#say("fault", `${name} was paused`);
      if (old.paused && !node.paused && node.alive) this.#say("mend", `${name} goes on`);
      if (!old.cut && node.cut) this.#say("fault", `${name} was cut off`);
      if (old.cut && !node.cut && node.alive) this.#say("mend", `${name} was connected again`);
    }
  }

  #say(kind, text, detail = "") {
    this.#add({ at: new Date(), kind, text, detail });
  }
}

// stepsOf tells how the winner got there: the silence before it did anything, and each
// step with the time since the first one.
function stepsOf({ steps }) {
  const taken = steps.filter((s) => s.name !== "started" && s.name !== "heard");
  if (!taken.length) return [];
  const first = taken[0].after_ms;
  const told = taken.map((s, i) => (i ? `${s.name} +${milliseconds(s.after_ms - first)}` : s.name));
  const silent = steps[0].name === "heard" ? [`silent for ${milliseconds(first)}`] : [];
  return [...silent, `steps: ${told.join(", ")}`];
}

// The causes of an election in words.
const causes = {
  start: () => "the start: there was no leader before",
  crash: (before) => `crash: the process of ${before} is gone`,
  silence: (before) => `silence: nothing was heard of ${before}`,
  "hand-over": (before) => `hand-over: ${before} gave leadership up in order`,
  "lease lost": (before) => `lease lost: ${before} did not reach a majority in time`,
  conflict: (before, rule) => `conflict: two led, and this claim was better (${rule})`,
  outvoted: (before) => `outvoted: it was elected before ${before} was missed here`,
  raised: () => "raised: the same leader took a later version",
};
