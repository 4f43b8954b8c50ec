// SPDX-License-Identifier: Apache-2.0

// What the page asks the server that it came from. Paths are relative, so that a
// handler which is mounted below another path works too.

const key = "athena-token"; // kept until the tab is closed

// useToken makes every question show a token.
export function useToken(token) {
  sessionStorage.setItem(key, token);
}

// open asks, and gives the answer as it comes. A server that wants a token, or
// another one, makes the window hear of "unauthorized".
export async function open(path, options = {}) {
  const token = sessionStorage.getItem(key);
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.status === 401) dispatchEvent(new Event("unauthorized"));
  return response;
}

// ask gives the JSON at a path. An error has the text and the code of the API.
export async function ask(path, timeout, method = "GET", body = undefined) {
  const sent = body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  let response;
  try {
    response = await open(path, { method, signal: AbortSignal.timeout(timeout), ...sent });
  } catch (error) {
    throw told(error.name === "TimeoutError" ? `no answer within ${timeout} ms` : "no answer", "");
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw told(`answered with ${response.status} and no JSON`, "");
  }
  if (!response.ok) throw told(answer.error, answer.code);
  return answer;
}

function told(text, code) {
  return Object.assign(new Error(text), { code });
}

// nodePath is where one node answers for itself.
export const nodePath = (name, what) => `v1/nodes/${encodeURIComponent(name)}/${what}`;
