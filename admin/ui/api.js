// SPDX-License-Identifier: Apache-2.0

// Requests to the server of the page. Paths are relative, so that the handler can be mounted under
// another path.

const key = "athena-token"; // in the session storage

// useToken adds a token to all later requests.
export function useToken(token) {
  sessionStorage.setItem(key, token);
}

// open sends a request and resolves to the Response. If the token is missing or wrong, it
// dispatches the event "unauthorized" on the window.
export async function open(path, options = {}) {
  const token = sessionStorage.getItem(key);
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.status === 401) dispatchEvent(new Event("unauthorized"));
  return response;
}

// ask resolves to the JSON at a path. Errors carry the text and the code from the API.
export async function ask(path, timeout, method = "GET", body = undefined) {
  const sent = body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  let response;
  try {
    response = await open(path, { method, signal: AbortSignal.timeout(timeout), ...sent });
  } catch (error) {
    throw apiError(error.name === "TimeoutError" ? `no response within ${timeout} ms` : "no response", "");
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw apiError(`response ${response.status} without JSON`, "");
  }
  if (!response.ok) throw apiError(answer.error, answer.code);
  return answer;
}

function apiError(text, code) {
  return Object.assign(new Error(text), { code });
}

// nodePath returns the path of a request to one node.
export const nodePath = (name, what) => `v1/nodes/${encodeURIComponent(name)}/${what}`;
