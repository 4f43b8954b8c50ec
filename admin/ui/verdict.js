// SPDX-License-Identifier: Apache-2.0

// The verdict: the state of the cluster in one sentence.

import { answering, camps } from "./consensus.js";
import { setText } from "./dom.js";
import { list } from "./words.js";

const most = 8; // names in a sentence

// unanswered returns the verdict if the server does not respond or needs a token.
export function unanswered(locked) {
  return locked ? { mood: "wait", shape: "○", text: "The server needs a token", accord: "" } :
    { mood: "bad", shape: "×", text: "The server does not respond", accord: "" };
}

// verdict returns { mood, shape, text, accord } for looks; mood is "good", "wait" or "bad".
export function verdict(looks, names) {
  const there = answering(looks);
  const silent = looks.filter((l) => !l.status).map((l) => l.node.name);
  if (!there.length) {
    return { mood: "bad", shape: "×", text: "No node responds", accord: "" };
  }
  const groups = camps(looks);
  const name = (address) => names.get(address) ?? address;
  const rest = silent.length ?
    ` ${list(silent, most)} ${silent.length > 1 ? "do" : "does"} not respond.` : "";
  if (groups.length > 1) {
    const sides = groups.map((g) =>
      `${g.length > most ? `${g.length} nodes` : list(g.map((l) => l.node.name))} ${belief(g[0].status, name, g.length)}`);
    return {
      mood: "bad", shape: "≠", text: `The nodes disagree: ${lead(groups, name)}`,
      accord: `${sides.join("; ")}.${rest}`,
    };
  }
  const s = there[0].status;
  const all = there.length === 1 ? "The only node that responds" : `All ${there.length} nodes that respond`;
  const accord = there.length === 1 ? `${all} ${belief(s, name, 1)}.${rest}` :
    `${all} ${s.token > 0 ? "agree on the leader" : "have no leader with authority"}.${rest}`;
  if (s.token > 0) {
    return { mood: "good", shape: "●", text: `${name(s.view.leader)} leads with authority`, accord };
  }
  return {
    mood: "wait", shape: "○", accord,
    text: s.view.leader ? `${name(s.view.leader)} leads without authority: ${s.no_leader}` :
      `No leader: ${s.no_leader}`,
  };
}

// lead returns the names of all leaders with authority in any view.
function lead(groups, name) {
  const leaders = new Set(groups.map(([l]) => l.status).filter((s) => s.token > 0)
    .map((s) => name(s.view.leader)));
  if (!leaders.size) return "no leader with authority";
  if (leaders.size === 1) return `${[...leaders][0]} leads with authority, but not in all views`;
  return `different leaders: ${list([...leaders])}`;
}

function belief(s, name, nodes) {
  const follows = s.role === "leader" && nodes === 1 ? "leads" : nodes > 1 ? "follow" : "follows";
  const at = `(version ${s.view.version_text})`;
  if (!s.view.leader) return `${nodes > 1 ? "follow" : "follows"} no leader ${at}`;
  const who = follows === "leads" ? "" : ` ${name(s.view.leader)}`;
  return `${follows}${who} ${s.token > 0 ? "with" : "without"} authority ${at}`;
}

// show writes a verdict to the page.
export function show({ mood, shape, text, accord }) {
  const place = document.getElementById("verdict");
  place.dataset.mood = mood;
  setText(place.querySelector(".shape"), shape);
  setText(place.querySelector(".words"), text);
  setText(document.getElementById("accord"), accord);
}
