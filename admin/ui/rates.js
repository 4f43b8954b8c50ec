// SPDX-License-Identifier: Apache-2.0

// Rates per second, from the counters of successive looks, for the charts.

const span = 120; // length of a window, s
const least = 400; // minimum time between two rows, ms
const most = 8; // maximum number of peers with a column

// A Window is a table of the last two minutes: times in seconds, and a column of values for each
// name. A missing value is null.
export class Window {
  times = [];
  columns = new Map();

  // add adds a row.
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

// A Meter holds the windows of one node.
export class Meter {
  trips = new Window(); // round-trip times in ms, by name of peer
  frames = new Window(); // protocol messages per second
  events = new Window(); // application events per second
  #last = null;
  #added = 0; // time of the last row, by Date.now()

  // add adds a row for a look.
  add(look, names) {
    const now = Date.now();
    if (now - this.#added < least) return;
    const time = now / 1000;
    const s = look.status;
    const last = this.#last;
    if (s && last && last.at === look.at) return; // this look was already added
    this.#added = now;
    this.#last = s && { at: look.at, up: s.uptime_ms, counts: counts(s) };
    this.trips.add(time, tripsOf(s?.peers ?? [], names));
    // After a restart, the counters start at 0.
    const per = s && last && s.uptime_ms > last.up ? (s.uptime_ms - last.up) / 1000 : 0;
    const rate = (key) => (per ? Math.max(0, (this.#last.counts[key] - last.counts[key]) / per) : null);
    this.frames.add(time, { sent: rate("out"), received: rate("in") });
    this.events.add(time, { sent: rate("eventsOut"), handled: rate("handled"), dropped: rate("dropped") });
  }
}

// tripsOf returns the round-trip time of each peer, or their minimum, median and maximum if there
// would be too many lines to distinguish.
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
