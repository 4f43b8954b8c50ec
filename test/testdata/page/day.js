// SPDX-License-Identifier: Apache-2.0

// A day of use in a short time: a second set of panels, drawn beside the visible ones, with a
// simulated clock. pass(elections) simulates a number of elections and returns how much the
// panels hold.
(async () => {
  const parts = await Promise.all(["beliefs", "changes", "charts", "consensus", "rates", "ring", "timeline"]
    .map((name) => import(new URL(`ui/${name}.js`, location))));
  const { names, reference, consensus, Beliefs, Charts, Meter, Ring, Changes, TermBand, TimeLine } =
    Object.assign({}, ...parts);
  const { svg, el } = await import(new URL("ui/dom.js", location));
  const place = el("div");
  const [list, band, ring, table, charts, select] =
    [el("ol"), svg("svg"), svg("svg"), el("div"), el("div"), el("select")];
  place.append(list, band, ring, table, charts, select);

  const nodes = await (await fetch("v1/nodes")).json();
  const looks = await Promise.all(nodes.map(async (node) => {
    const response = await fetch(`v1/nodes/${node.name}/status`);
    return { node, status: await response.json(), error: "", at: 0 };
  }));
  const line = new TimeLine(list);
  const changes = new Changes((entry) => line.add(entry));
  const panels = { ring: new Ring(ring), beliefs: new Beliefs(table), charts: new Charts(charts, select) };
  const terms = new TermBand(band);
  const meter = new Meter();
  const real = Date.now;
  let now = real();
  let version = 1;

  // step simulates the next round of looks, with another leader.
  const step = (i) => {
    now += 30;
    version++;
    const leader = nodes[version % nodes.length].address;
    for (const look of looks) {
      const s = look.status;
      look.at = now;
      s.uptime_ms += 30;
      s.view.version = s.token = version;
      s.term_since = new Date(now).toISOString();
      s.view.leader = leader;
      s.view.members[3].status = version % 2 ? "active" : "unreachable";
      s.last_election = { ...s.last_election, version, leader, ended: new Date(now).toISOString() };
    }
    const known = names(looks);
    const best = reference(looks);
    const members = consensus(looks, best);
    changes.compare(looks, known, best, members);
    meter.add(looks[0], known);
    if (i % 20 === 0) terms.draw(known, best);
    if (i % 500 !== 0) return;
    panels.ring.draw(looks, known, best, members);
    panels.beliefs.draw(looks, known, best);
    panels.charts.draw(looks, known, best);
  };

  globalThis.pass = (elections) => {
    Date.now = () => now;
    try {
      for (let i = 0; i < elections; i++) step(i);
    } finally {
      Date.now = real;
    }
    return {
      Entries: list.children.length, Terms: band.querySelectorAll("rect").length,
      Points: meter.frames.times.length, Elements: place.querySelectorAll("*").length,
    };
  };
  return true;
})()
