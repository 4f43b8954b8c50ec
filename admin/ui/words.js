// SPDX-License-Identifier: Apache-2.0

// Formatting of numbers and times, and a shape for each status, so that no information depends on
// colour.

const shapes = {
  active: "●", joining: "+", unreachable: "×", leaving: "→", removed: "–",
};

// shape returns the sign of a status.
export const shape = (status) => shapes[status] ?? "?";

// milliseconds formats a duration with a suitable unit.
export function milliseconds(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60000)} min`;
}

// clock formats the time of day with milliseconds.
export function clock(date) {
  const two = (n) => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.` +
    String(date.getMilliseconds()).padStart(3, "0");
}

// figure formats a rate with about three digits.
export function figure(value) {
  if (!Number.isFinite(value)) return "–";
  return value >= 100 ? String(Math.round(value)) : value >= 1 ? value.toFixed(1) : value.toFixed(2);
}

// list joins names with commas and "and". It counts the names beyond most.
export function list(names, most = Infinity) {
  const [first, rest] = [names.slice(0, most), names.length - most];
  if (rest > 1) return `${first.join(", ")} and ${rest} more`;
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

// brief shortens names to a maximum number of characters. It removes their common suffix, then
// their common prefix, both at word boundaries, and finally cuts out the middle.
export function brief(names, most) {
  let all = names;
  const tooLong = () => all.some((n) => n.length > most);
  if (tooLong()) all = withoutStart(all.map(turned), /[^A-Za-z0-9]/).map(turned);
  if (tooLong()) all = withoutStart(all, /[^A-Za-z0-9]/);
  const cut = (n) => (n.length > most ? `${n.slice(0, most / 2)}…${n.slice(1 - most / 2)}` : n);
  return new Map(names.map((n, i) => [n, cut(all[i])]));
}

const turned = (text) => [...text].reverse().join("");

// withoutStart removes the common prefix of all texts, up to the last word boundary.
function withoutStart(texts, end) {
  const [first] = texts;
  let same = 0;
  for (let i = 0; texts.length > 1 && texts.every((t) => i < t.length - 1 && t[i] === first[i]); i++) {
    if (end.test(first[i])) same = i + 1;
  }
  return texts.map((t) => t.slice(same));
}
