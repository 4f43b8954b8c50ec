// SPDX-License-Identifier: Apache-2.0

// The stream of events, v1/events: the news of one node, at once. It is read by fetch,
// since an EventSource cannot show a token.

import { open } from "./api.js";

const rest = 2000; // before the stream is opened again, ms

// follow calls told(type, data) for each event, and opens the stream again where it
// ends, after the last event that came. The server sends a snapshot where it cannot.
// Pages that nobody sees hold none: a browser has six connections for one server.
export async function follow(told) {
  let last = "";
  for (;;) {
    const seen = whileSeen();
    try {
      await seen.begun;
      const query = last ? `?last_event_id=${encodeURIComponent(last)}` : "";
      const response = await open(`v1/events${query}`, { signal: seen.signal });
      if (response.ok) {
        for await (const event of eventsOf(response.body)) {
          last = event.id || last;
          told(event.type, event.data);
        }
      }
    } catch {
      // The server is gone: whoever looks at it says so. Or the page is not seen.
    }
    seen.end();
    await new Promise((done) => setTimeout(done, rest));
  }
}

// whileSeen gives a promise that the page is seen, and a signal that it is no more.
function whileSeen() {
  const over = new AbortController();
  const begun = new Promise((begin) => {
    let seen = false;
    const look = () => {
      if (document.hidden && seen) over.abort();
      else if (!document.hidden) begin(seen = true);
    };
    document.addEventListener("visibilitychange", look, { signal: over.signal });
    look();
  });
  return { begun, signal: over.signal, end: () => over.abort() };
}

// eventsOf parses a stream: fields, a line each, and an empty line after each event.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const fields = Object.fromEntries(text.slice(0, end).split("\n").map((line) => {
        const at = line.indexOf(":");
        return [line.slice(0, at), line.slice(at + 1).trimStart()];
      }));
      if (fields.data) yield { id: fields.id, type: fields.event, data: JSON.parse(fields.data) };
    }
  }
}
