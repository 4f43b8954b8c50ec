// SPDX-License-Identifier: Apache-2.0

// Consensus: what the views of the nodes have in common, and where they differ. A look is the
// latest snapshot of one node; see watcher.js.

// names returns a Map from address to name, from all looks.
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

// answering returns the looks at nodes that respond.
export const answering = (looks) => looks.filter((look) => look.status);

// reference returns the most reliable look: that of the leader with authority, or else of one of
// its followers, or else of the newest version. It returns null if no node responds.
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

// consensus returns each member as most responding nodes see it; the reference decides a tie. An
// isolated leader sees all others as unreachable, and is outvoted.
export function consensus(looks, reference) {
  const all = new Map(); // lists of entries by address
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

// beliefOf returns a string that identifies the leader in a node's view, for comparison.
function beliefOf({ status: s }) {
  return s.view.leader ? `${s.view.leader} ${s.view.version_text} ${s.token > 0}` : "nobody";
}

// camps groups the responding nodes by the leader in their view, largest group first.
export function camps(looks) {
  const groups = new Map();
  for (const look of answering(looks)) {
    const belief = beliefOf(look);
    if (!groups.has(belief)) groups.set(belief, []);
    groups.get(belief).push(look);
  }
  return [...groups.values()].sort((a, b) => b.length - a.length);
}

// usual returns the most frequent value. If there is a tie, it returns preferred.
function usual(values, preferred) {
  const counts = new Map();
  for (const v of values) {
    if (v !== undefined) counts.set(v, (counts.get(v) ?? 0) + 1);
  }
  const most = Math.max(0, ...counts.values());
  const winners = [...counts.keys()].filter((v) => counts.get(v) === most);
  return winners.includes(preferred) ? preferred : winners[0];
}

// differing reports for each value whether it differs from the most frequent one. preferred decides
// a tie.
export function differing(values, preferred) {
  const right = usual(values, preferred);
  return values.map((v) => v !== undefined && v !== right);
}

// A Debounce accepts only differences that persist for two rounds. Nodes are never polled at
// exactly the same moment, and a change that one of them sees first is not a disagreement.
export class Debounce {
  #seen = new Map();
  #now = new Map();

  // persists reports whether name had the same value in the previous round.
  persists(name, value) {
    this.#now.set(name, value);
    return this.#seen.get(name) === value;
  }

  // nextRound begins the next round.
  nextRound() {
    this.#seen = this.#now;
    this.#now = new Map();
  }
}
