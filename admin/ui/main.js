// SPDX-License-Identifier: Apache-2.0

// The page: polls the nodes and passes the looks to each panel. Panels are independent.

import { ask } from "./api.js";
import { Beliefs } from "./beliefs.js";
import { Charts } from "./charts.js";
import { consensus, names, reference } from "./consensus.js";
import { setText } from "./dom.js";
import { follow } from "./events.js";
import { Faults } from "./faults.js";
import { Jobs } from "./jobs.js";
import { Changes } from "./changes.js";
import { Ring } from "./ring.js";
import { TermBand, TimeLine } from "./timeline.js";
import { requestToken } from "./token.js";
import { show, unanswered, verdict } from "./verdict.js";
import { Watcher } from "./watcher.js";

const at = (id) => document.getElementById(id);

const watcher = new Watcher(draw);
const ring = new Ring(at("ring"));
const beliefs = new Beliefs(at("beliefs"));
const timeline = new TimeLine(at("timeline"));
const changes = new Changes((entry) => timeline.add(entry));
const terms = new TermBand(at("terms"));
const charts = new Charts(at("charts"), at("measured"));
const faults = new Faults(at("faults"), at("done"), () => watcher.soon());
const jobs = new Jobs(document.querySelector("section.jobs"), () => watcher.soon());

function draw({ looks: all, lost, locked }) {
  const looks = [...all.values()];
  const known = names(looks);
  const best = reference(looks);
  const members = consensus(looks, best);
  show(lost ? unanswered(locked) : verdict(looks, known));
  setText(at("link"), lost ? "not live" : "live");
  at("link").classList.toggle("bad", Boolean(lost));
  const cluster = best?.status.cluster;
  if (cluster) {
    setText(at("cluster"), `${cluster} · ${best.status.size} members, quorum ${best.status.quorum}`);
    document.title = `${cluster} – Athena`;
  }
  ring.draw(looks, known, best, members);
  beliefs.draw(looks, known, best);
  faults.draw(looks);
  if (lost) return;
  jobs.draw(looks, known, best);
  if (best) loadElections(known);
  changes.compare(looks, known, best, members);
  terms.draw(known, best);
  charts.draw(looks, known, best);
}

// loadElections adds, once, the elections from before the page was opened.
let loaded = false;
async function loadElections(known) {
  if (loaded) return;
  loaded = true;
  try {
    changes.addElections(await ask("v1/elections", 2000), known);
  } catch {
    loaded = false;
  }
}

requestToken(at("token"), () => watcher.soon());
watcher.start();
// The stream is faster than polling but covers one node only, so each event triggers a round of
// polling.
follow((type) => type === "snapshot" || watcher.soon());
