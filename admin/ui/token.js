// SPDX-License-Identifier: Apache-2.0

// The token of a server that wants one: asked for once, and again where it is wrong.

import { useToken } from "./api.js";
import { setText } from "./dom.js";

// wantToken shows the form when the server wants a token, and calls given after
// somebody has typed one.
export function wantToken(form, given) {
  const input = form.querySelector("input");
  const said = form.querySelector("[role=status]");
  let tried = false;
  addEventListener("unauthorized", () => {
    if (!form.hidden) return;
    form.hidden = false;
    setText(said, tried ? "That is not the token." : "");
    input.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    tried = true;
    useToken(input.value.trim());
    input.value = "";
    form.hidden = true;
    given();
  });
}
