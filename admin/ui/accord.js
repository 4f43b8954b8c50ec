// SPDX-License-Identifier: Apache-2.0

// Accord: what the views of the nodes have in common, and where they differ.

// names tells the name of each address that any of the looks knows.
export function names(looks) {
  const known = new Map();
  for (const { node, status } of looks) {
    known.set(node.address, node.name);
    for (const m of status?.view.members ?? []) {
      if (!known.has(m.address)) known.set(m.address, m.name);
    }
  }
  return known;
}

// answering are the looks of nodes that answer.
export const answering = (looks) => looks.filter((look) => look.status);

// reference is the look that is most to be believed: of the leader with authority,
// else of who follows one, else of the newest version; null without any.
export function reference(looks) {
  const rank = ({ status: s }) => [s.token > 0 && s.role === "leader" ? 1 : 0,
    ...[s.token_text, s.view.version_text, s.view.revision_text].map(BigInt)];
  const newer = (a, b) => {
    const [left, right] = [rank(a), rank(b)];
    const i = left.findIndex((n, i) => n !== right[i]);
    return i >= 0 && left[i] > right[i];
  };
  return answering(looks).reduce((best, look) => (!best || newer(look, best) ? look : best), null);
}

// consensus is each member as most of the nodes that answer see it, and as the
// reference does where no status has more than the others. A leader that was cut off
// thinks that all others are gone, and is alone with that.
export function consensus(looks, reference) {
  const all = new Map(); // of lists of entries, by address
  for (const { status } of answering(looks)) {
    for (const m of status.view.members) {
      if (!all.has(m.address)) all.set(m.address, []);
      all.get(m.address).push(m);
    }
  }
  const members = new Map();
  for (const [address, entries] of all) {
    const own = reference?.status.view.members.find((m) => m.address === address);
    const status = usual(entries.map((m) => m.status), own?.status);
    members.set(address, entries.find((m) => m.status === status));
  }
  return members;
}

// beliefOf is what a node thinks of leadership, in a word that can be compared.
function beliefOf({ status: s }) {
  return s.view.leader ? `${s.view.leader} ${s.view.version_text} ${s.token > 0}` : "nobody";
}

// camps groups the nodes that answer by what they think of leadership, the largest
// first.
export function camps(looks) {
  const groups = new Map();
  for (const look of answering(looks)) {
    const belief = beliefOf(look);
    if (!groups.has(belief)) groups.set(belief, []);
    groups.get(belief).push(look);
  }
  return [...groups.values()].sort((a, b) => b.length - a.length);
}

// usual is the value that most have, and the preferred one where it is among several.
function usual(values, preferred) {
  const counts = new Map();
  for (const v of values) {
    if (v !== undefined) counts.set(v, (counts.get(v) ?? 0) + 1);
  }
  const most = Math.max(0, ...counts.values());
  const winners = [...counts.keys()].filter((v) => counts.get(v) === most);
  return winners.includes(preferred) ? preferred : winners[0];
}

// odd tells which of some values differ from what most of them are. Where no value
// has more than the others, the preferred one counts.
export function odd(values, preferred) {
  const right = usual(values, preferred);
  return values.map((v) => v !== undefined && v !== right);
}

// A Patience lets a difference count when it was there twice: two nodes are never
// asked at the same moment, and what one knows a little earlier is no disagreement.
export class Patience {
  #seen = new Map();
  #now = new Map();

  // lasts reports whether the difference of a name was there at the last turn too.
  lasts(name, value) {
    this.#now.set(name, value);
    return this.#seen.get(name) === value;
  }

  // turn begins the next turn.
  turn() {
    this.#seen = this.#now;
    this.#now = new Map();
  }
}
