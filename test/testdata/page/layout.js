// SPDX-License-Identifier: Apache-2.0

// What cannot be read on the page: texts that lie on each other, are cut off or too
// small, and what is wider than its place. The answer is a list of texts.
(() => {
  const faults = [];
  const least = 10.99; // px of a letter; a sign within a member may be smaller
  const called = (e) => `${e.className.baseVal ?? e.className} ${JSON.stringify(e.textContent.slice(0, 30))}`;

  // corners are those of an element of the ring, turned as it is, in pixels. The box of
  // a text has room above and below its letters.
  const corners = (e) => {
    const [b, m] = [e.getBBox(), e.getScreenCTM()];
    const lead = e.tagName === "text" ? 0.15 * b.height : 0;
    const [top, bottom] = [b.y + lead, b.y + b.height - lead];
    return [[b.x, top], [b.x + b.width, top], [b.x + b.width, bottom], [b.x, bottom]].map(([x, y]) =>
      [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
  };

  // apart tells whether a line fits between two shapes.
  const apart = (a, b) => [a, b].some((shape) => shape.some((p, i) => {
    const q = shape[(i + 1) % shape.length];
    const along = ([x, y]) => x * (q[1] - p[1]) - y * (q[0] - p[0]);
    const [left, right] = [a.map(along), b.map(along)];
    return Math.max(...left) <= Math.min(...right) || Math.max(...right) <= Math.min(...left);
  }));

  const ring = document.querySelector("#ring");
  const frame = ring.getBoundingClientRect();
  const shapes = [...ring.querySelectorAll(".name, .word, .body")].map((e) => ({ e, at: corners(e) }));
  shapes.forEach(({ e, at }, i) => {
    for (const other of shapes.slice(i + 1)) {
      if (!apart(at, other.at)) faults.push(`in the ring ${called(e)} lies on ${called(other.e)}`);
    }
    if (at.some(([x, y]) => x < frame.left || x > frame.right || y < frame.top || y > frame.bottom)) {
      faults.push(`in the ring ${called(e)} is cut off`);
    }
  });
  for (const text of ring.querySelectorAll("text")) {
    const m = text.getScreenCTM();
    const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b);
    if (text.textContent && size < (text.matches(".in") ? 9 : least)) {
      faults.push(`in the ring ${called(text)} has letters of ${size.toFixed(1)} px`);
    }
  }

  if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than the window");
  const beliefs = document.querySelector("#beliefs");
  if (innerWidth > 1000 && beliefs.scrollWidth > beliefs.clientWidth) {
    faults.push(`the table is ${beliefs.scrollWidth} px wide, its place ${beliefs.clientWidth}`);
  }
  for (const e of document.querySelectorAll("header *, main *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
    if (!own || e.closest("svg, .scroll, .spoken, select") || !e.checkVisibility()) continue;
    if (parseFloat(getComputedStyle(e).fontSize) < least) faults.push(`${called(e)} is too small`);
    const { left, right } = e.getBoundingClientRect();
    if (left < 0 || right > innerWidth + 1) faults.push(`${called(e)} is cut off`);
  }
  for (const label of document.querySelectorAll("#terms .label")) {
    if (label.getBBox().x + label.getBBox().width > document.querySelector("#terms").clientWidth) {
      faults.push(`${called(label)} is cut off`);
    }
  }
  for (const legend of document.querySelectorAll(".legend")) {
    if (legend.children.length > 8) faults.push(`a chart of ${legend.children.length} lines`);
  }
  return faults;
})()
