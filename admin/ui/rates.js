// SPDX-License-Identifier: Apache-2.0

// Rates: from counters of looks that follow each other to figures per second, and a
// window of them for the charts.

const span = 120; // seconds that are kept
const least = 400; // ms between two lines, however often somebody looks
const most = 8; // peers of which each has a column

// A Window is a table of the last two minutes: times in seconds, and a column of
// values for each name. What was not there at a time is null.
export class Window {
  times = [];
  columns = new Map();

  // add adds a line.
  add(time, values) {
    this.times.push(time);
    for (const name of new Set([...this.columns.keys(), ...Object.keys(values)])) {
      if (!this.columns.has(name)) this.columns.set(name, Array(this.times.length - 1).fill(null));
      this.columns.get(name).push(values[name] ?? null);
    }
    while (this.times.length && this.times[0] < time - span) {
      this.times.shift();
      for (const column of this.columns.values()) column.shift();
    }
    for (const [name, column] of this.columns) {
      if (column.every((v) => v === null)) this.columns.delete(name);
    }
  }
}

// A Meter makes the windows of one node.
export class Meter {
  trips = new Window(); // round trips in ms, by the name of the peer
  frames = new Window(); // messages of the protocol per second
  events = new Window(); // events of the application per second
  #last = null;
  #added = 0; // when, by Date.now()

  // add takes a look, or notes that there was none.
  add(look, names) {
    const now = Date.now();
    if (now - this.#added < least) return;
    const time = now / 1000;
    const s = look.status;
    const last = this.#last;
    if (s && last && last.at === look.at) return; // the same look again
    this.#added = now;
    this.#last = s && { at: look.at, up: s.uptime_ms, counts: counts(s) };
    this.trips.add(time, tripsOf(s?.peers ?? [], names));
    // A node that was started again counts from 0.
    const per = s && last && s.uptime_ms > last.up ? (s.uptime_ms - last.up) / 1000 : 0;
    const rate = (key) => (per ? Math.max(0, (this.#last.counts[key] - last.counts[key]) / per) : null);
    this.frames.add(time, { sent: rate("out"), received: rate("in") });
    this.events.add(time, { sent: rate("eventsOut"), handled: rate("handled"), dropped: rate("dropped") });
  }
}

// tripsOf are the round trips to the peers; where these are many, what there is to know
// of them: nobody tells fifty lines from each other.
function tripsOf(peers, names) {
  const there = peers.filter((p) => p.connected);
  if (there.length <= most) {
    return Object.fromEntries(there.map((p) => [names.get(p.address) ?? p.address, p.rtt_ms]));
  }
  const sorted = there.map((p) => p.rtt_ms).sort((a, b) => a - b);
  return { fastest: sorted[0], median: sorted[sorted.length >> 1], slowest: sorted.at(-1) };
}

function counts(s) {
  const { sent, received } = s.traffic;
  return {
    out: sent.system.messages, in: received.system.messages, eventsOut: sent.custom.messages,
    handled: s.events.handled, dropped: s.events.dropped + s.events.failed,
  };
}
