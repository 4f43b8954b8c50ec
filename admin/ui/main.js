// SPDX-License-Identifier: Apache-2.0

// The page: looks at the nodes, and gives each look to every panel. A panel knows
// nothing of the others.

import { consensus, names, reference } from "./accord.js";
import { ask } from "./api.js";
import { Beliefs } from "./beliefs.js";
import { Charts } from "./charts.js";
import { setText } from "./dom.js";
import { follow } from "./events.js";
import { Faults } from "./faults.js";
import { Jobs } from "./jobs.js";
import { Watcher } from "./looks.js";
import { Ring } from "./ring.js";
import { Story } from "./story.js";
import { Reigns, TimeLine } from "./timeline.js";
import { wantToken } from "./token.js";
import { show, unanswered, verdict } from "./verdict.js";

const at = (id) => document.getElementById(id);

const watcher = new Watcher(draw);
const ring = new Ring(at("ring"));
const beliefs = new Beliefs(at("beliefs"));
const timeline = new TimeLine(at("timeline"));
const story = new Story((entry) => timeline.add(entry));
const reigns = new Reigns(at("reigns"));
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
  if (best) past(known);
  story.tell(looks, known, best, members);
  reigns.draw(known, best);
  charts.draw(looks, known, best);
}

// past tells what was before the page was opened, once somebody can say it.
let told = false;
async function past(known) {
  if (told) return;
  told = true;
  try {
    story.remember(await ask("v1/elections", 2000), known);
  } catch {
    told = false;
  }
}

wantToken(at("token"), () => watcher.soon());
watcher.start();
// The stream is quicker than the next look, and tells only of one node: what has
// happened is read from the looks at all of them.
follow((type) => type === "snapshot" || watcher.soon());
