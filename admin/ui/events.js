// SPDX-License-Identifier: Apache-2.0

// The event stream v1/events of one node. It is read by fetch, since an EventSource cannot send a
// token.

import { open } from "./api.js";

const pause = 2000; // before the stream is reopened, ms

// follow calls onEvent(type, data) for each event. If the stream ends, follow reopens it after the
// last event. A hidden page keeps no stream open, since browsers allow only six connections per
// server.
export async function follow(onEvent) {
  let last = "";
  for (;;) {
    const visible = whileVisible();
    try {
      await visible.begun;
      const query = last ? `?last_event_id=${encodeURIComponent(last)}` : "";
      const response = await open(`v1/events${query}`, { signal: visible.signal });
      if (response.ok) {
        for await (const event of eventsOf(response.body)) {
          last = event.id || last;
          onEvent(event.type, event.data);
        }
      }
    } catch {
      // The server does not respond, which the Watcher reports, or the page is hidden.
    }
    visible.end();
    await new Promise((done) => setTimeout(done, pause));
  }
}

// whileVisible returns a promise that resolves when the page is visible, and a signal that aborts
// when it is hidden.
function whileVisible() {
  const hidden = new AbortController();
  const begun = new Promise((begin) => {
    let visible = false;
    const check = () => {
      if (document.hidden && visible) hidden.abort();
      else if (!document.hidden) begin(visible = true);
    };
    document.addEventListener("visibilitychange", check, { signal: hidden.signal });
    check();
  });
  return { begun, signal: hidden.signal, end: () => hidden.abort() };
}

// eventsOf parses a stream of server-sent events.
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
