// SPDX-License-Identifier: Apache-2.0

// Making and changing elements. Everything is text: nothing that a node says is
// ever read as HTML.

const svgNamespace = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value);
  }
  element.append(...children);
  return element;
}

// el makes an element of HTML.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// svg makes an element of SVG.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNamespace, tag), attributes, children);
}

// setAttribute changes an attribute where it differs; null takes it away.
export function setAttribute(element, name, value) {
  if (value === null || value === undefined) {
    element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

// setText changes text where it differs: a reader of the screen is told of no change
// that is none.
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

// colour is a custom property of the page as a colour that a canvas takes.
export function colour(property) {
  const probe = el("span");
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
