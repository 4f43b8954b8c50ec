// SPDX-License-Identifier: Apache-2.0

// What the page asks the server that it came from. Paths are relative, so that a
// handler which is mounted below another path works too.

// ask gives the JSON at a path. An error has the text and the code of the API.
export async function ask(path, timeout, method = "GET") {
  let response;
  try {
    response = await fetch(path, { method, signal: AbortSignal.timeout(timeout), cache: "no-store" });
  } catch (error) {
    throw told(error.name === "TimeoutError" ? `no answer within ${timeout} ms` : "no answer", "");
  }
  let body;
  try {
    body = await response.json();
  } catch {
    throw told(`answered with ${response.status} and no JSON`, "");
  }
  if (!response.ok) throw told(body.error, body.code);
  return body;
}

function told(text, code) {
  return Object.assign(new Error(text), { code });
}

// nodePath is where one node answers for itself.
export const nodePath = (name, what) => `v1/nodes/${encodeURIComponent(name)}/${what}`;
