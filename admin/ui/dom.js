// SPDX-License-Identifier: Apache-2.0

// Creating and changing elements. Data from nodes is only ever inserted as text, never as HTML.

const svgNamespace = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value);
  }
  element.append(...children);
  return element;
}

// el creates an HTML element.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// svg creates an SVG element.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNamespace, tag), attributes, children);
}

// setAttribute sets an attribute if it differs; null removes it.
export function setAttribute(element, name, value) {
  if (value === null || value === undefined) {
    element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

// setText sets the text if it differs, so that screen readers announce only changes.
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

// colour resolves a custom property to a colour for a canvas.
export function colour(property) {
  const probe = el("span");
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
