// SPDX-License-Identifier: Apache-2.0

// The selected theme. This is not a module, so that it runs before the page is drawn.
(() => {
  const key = "athena-theme";
  const root = document.documentElement;
  let chosen = "";
  try {
    chosen = localStorage.getItem(key) || "";
  } catch {
    // Without local storage, the selection lasts until the page is closed.
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
        // See above.
      }
      dispatchEvent(new Event("recolour"));
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    dispatchEvent(new Event("recolour"));
  });
})();
