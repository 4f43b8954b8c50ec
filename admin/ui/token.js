// SPDX-License-Identifier: Apache-2.0

// The token of a server that wants one: asked for once, and again where it is wrong.

import { useToken } from "./api.js";
import { setText } from "./dom.js";

const wrong = "That is not the token.";

// wantToken shows the form when the server wants a token, and calls given after
// somebody has typed one.
export function wantToken(form, given) {
  const input = form.querySelector("input");
  const said = form.querySelector("[role=status]");
  let tried = false;
  addEventListener("unauthorized", () => {
    if (!form.hidden) return;
    form.hidden = false;
    setText(said, tried ? wrong : "");
    input.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    tried = true;
    const token = input.value.trim();
    input.value = "";
    if (!/^[!-~]+$/.test(token)) { // it could not even be sent, now or later
      setText(said, wrong);
      return;
    }
    useToken(token);
    form.hidden = true;
    given();
  });
}
