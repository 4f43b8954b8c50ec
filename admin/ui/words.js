// SPDX-License-Identifier: Apache-2.0

// How things are written: figures, times, and a shape for each status, so that
// nothing is told by colour alone.

const shapes = {
  active: "●", joining: "+", unreachable: "×", leaving: "→", removed: "–",
};

// shape is the sign of a member's status.
export const shape = (status) => shapes[status] ?? "?";

// milliseconds writes a length of time as people say it.
export function milliseconds(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60000)} min`;
}

// clock writes the time of a day, to the millisecond.
export function clock(date) {
  const two = (n) => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.` +
    String(date.getMilliseconds()).padStart(3, "0");
}

// figure writes a rate with as many digits as it is worth.
export function figure(value) {
  if (!Number.isFinite(value)) return "–";
  return value >= 100 ? String(Math.round(value)) : value >= 1 ? value.toFixed(1) : value.toFixed(2);
}

// list joins names as a sentence does.
export function list(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
