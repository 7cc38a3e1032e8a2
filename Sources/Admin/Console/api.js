/// The admin API. The cookie of the sign-in goes along by itself.

const root = "/admin/api/";

/// An answer that is none. `kind` is `signed-out`, `away` (503: a part of the gateway), `offline` (no answer at all),
/// `limited` (429), `refused` (the request is at fault) or `failed`.
export class Fault extends Error {
  constructor(kind, title, message, { status = 0, code = "", retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { kind, title, status, code, retryAfter });
  }
}

let signedOut = () => {};

/// Sets what happens when an answer is 401: the cookie has expired, or the admin token has changed.
export function onSignedOut(action) { signedOut = action; }

function path(parts, query) {
  const address = root + parts.map(encodeURIComponent).join("/");
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  // The API reads a plus sign as one, as encodeURIComponent writes spaces and pluses.
  return pairs.length === 0 ? address
    : `${address}?${pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&")}`;
}

/// The fault that an answer stands for.
export async function fault(answer) {
  let code = "";
  let message = "";
  try {
    const body = await answer.json();
    code = body.error?.code ?? "";
    message = body.error?.message ?? "";
  } catch { /* The body is optional: the status says enough. */ }
  const retryAfter = Number(answer.headers.get("Retry-After")) || 0;
  const details = { status: answer.status, code, retryAfter };
  const wait = retryAfter > 0 ? ` Try again in ${retryAfter} s.` : "";
  const say = (text) => message ? `${message.replace(/\.?$/, ".")}${wait}` : text + wait;
  switch (answer.status) {
  case 401: return new Fault("signed-out", "Signed out", say("The console is not signed in."), details);
  case 403: return new Fault("refused", "Not allowed", say("The gateway does not allow this here."), details);
  case 404: return new Fault("refused", "Not found", say("There is nothing here."), details);
  case 429: return new Fault("limited", "Too many tries", say("Too many requests came from this address."), details);
  case 503: return new Fault("away", "Not available now", say("A part of the gateway does not answer."), details);
  default:
    return answer.status < 500
      ? new Fault("refused", "Refused", say(`The gateway refused this with ${answer.status}.`), details)
      : new Fault("failed", "The gateway failed", say(`It answered ${answer.status}.`), details);
  }
}

/// Sends a request without reading its body; throws a Fault for anything but 2xx.
export async function send(method, parts, { query, body, signal, headers } = {}) {
  let answer;
  try {
    answer = await fetch(path(parts, query), {
      method, signal, cache: "no-store", credentials: "same-origin",
      headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault("offline", "The gateway does not answer", "Is it running, and is the network up?");
  }
  if (answer.ok) return answer;
  throw await fault(answer);
}

/// Sends a request and reads its JSON; null for an answer without content. 401 leads to the sign-in.
export async function ask(method, parts, options = {}) {
  try {
    const answer = await send(method, parts, options);
    return answer.status === 204 ? null : await answer.json();
  } catch (error) {
    if (error instanceof Fault || error.name === "AbortError") {
      if (error.kind === "signed-out") signedOut(error);
      throw error;
    }
    throw new Fault("failed", "The answer is cut or no JSON", "The gateway may have ended in the middle of it.");
  }
}

export const get = (parts, query, signal) => ask("GET", parts, { query, signal });

/// The same, or null where the gateway has no such operation.
export async function getIfKnown(parts, signal) {
  try {
    return await get(parts, {}, signal);
  } catch (error) {
    if (error.status === 404 || error.status === 403) return null;
    throw error;
  }
}
