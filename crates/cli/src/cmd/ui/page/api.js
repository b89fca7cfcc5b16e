// Requests to the server of this page. The key is kept for this origin, port included, so that no other
// page of this machine has it; it is sent as a header, which no other page can.

const STORE = "muster-key";
let key = "";

/** Error of a request, with the next steps. */
export class ApiError extends Error {
  constructor(status, message, hints) {
    super(message);
    this.status = status;
    this.hints = hints;
  }

  /** True when this browser has no access. */
  get isNoAccess() {
    return this.status === 401;
  }

  /** True when the connection is at fault, and a later try may succeed. */
  get isLost() {
    return this.status === 0 || this.status >= 500;
  }
}

/** Takes the secret of the address, if there is one, and changes it into a key. Throws an `ApiError`. */
export async function open() {
  try { key = localStorage.getItem(STORE) ?? ""; } catch { /* The browser keeps nothing: this tab only. */ }
  const found = /^#open=([0-9a-f]+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", "#/");
  const had = key;
  try {
    const answer = await send("POST", "/page/open", { body: { link: found[1] } });
    key = (await answer.json()).key;
    try { localStorage.setItem(STORE, key); } catch { /* As above. */ }
  } catch (error) {
    // A used link does not take away the access that this browser has.
    if (!had || !error.isNoAccess) throw error;
  }
}

async function send(method, path, { query, body, signal } = {}) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const target = given.length ? `${path}?${new URLSearchParams(given)}` : path;
  const headers = { "x-muster-page": key };
  if (body) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(target, { method, headers, body: body && JSON.stringify(body), signal, credentials: "omit", redirect: "error" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "`muster ui` does not answer", ["it may have ended: run `muster ui` again"]);
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, told.message ?? `status ${answer.status}`, told.hints ?? []);
}

/** Reads JSON. */
export async function get(path, query, signal) {
  return (await send("GET", path, { query, signal })).json();
}

/** Takes an action. */
export async function post(path, body) {
  return (await send("POST", path, { body })).json();
}

/** Reads a stream of text; `take` gets each piece. Ends when the stream ends. */
export async function stream(path, query, signal, take) {
  const reader = (await send("GET", path, { query, signal })).body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    take(decoder.decode(value, { stream: true }));
  }
}
