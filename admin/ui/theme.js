// SPDX-License-Identifier: Apache-2.0

// The colours that somebody chose, before anything is drawn. No module, so that
// the page does not flash in the others first.
(() => {
  const key = "athena-theme";
  const root = document.documentElement;
  let chosen = "";
  try {
    chosen = localStorage.getItem(key) || "";
  } catch {
    // A browser that keeps nothing: the choice lasts as long as the page.
  }
  root.dataset.theme = chosen;
  addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = chosen;
    select.addEventListener("change", () => {
      root.dataset.theme = select.value;
      try {
        localStorage.setItem(key, select.value);
      } catch {
        // As above.
      }
      dispatchEvent(new Event("recolour"));
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    dispatchEvent(new Event("recolour"));
  });
})();
