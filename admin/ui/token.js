// SPDX-License-Identifier: Apache-2.0

// The form for the token of the admin API.

import { useToken } from "./api.js";
import { setText } from "./dom.js";

const wrong = "Wrong token.";

// requestToken shows the form when the server needs a token, and calls given once the user has
// entered one.
export function requestToken(form, given) {
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
    if (!/^[!-~]+$/.test(token)) { // cannot be sent in a header
      setText(said, wrong);
      return;
    }
    useToken(token);
    form.hidden = true;
    given();
  });
}
