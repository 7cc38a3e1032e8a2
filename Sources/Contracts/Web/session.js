/// Token storage, and every request with a token.

// The access token is held in memory. The refresh token must survive a reload, so it is in sessionStorage, which is
// cleared when the tab closes. localStorage would keep it for the next user of the computer; a cookie would be sent
// with forged cross-site requests. Neither token is ever part of a URL.
const key = "refresh";
const storage = openStorage();
const auth = document.querySelector("meta[name=auth]").content;
// Where the endpoints of accounts are; "" without them.
const own = document.querySelector("meta[name=account]").content;
let access = null;
let refreshing = null;

/// Without sessionStorage, the session lasts until the page is closed.
function openStorage() {
  try {
    sessionStorage.getItem(key);
    return sessionStorage;
  } catch {
    let held = null;
    return { getItem: () => held, setItem: (_, value) => { held = value; }, removeItem: () => { held = null; } };
  }
}

/// An error response, with a message for people, and its code.
export class Refusal extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/// The session has ended; the user must sign in.
export class SignedOut extends Error {}

/// The server demands a newer sign-in for the request. The session stays open.
export class SignInTooOld extends Error {}

/// The server demands a code of the second factor first, by `proveFactor`.
export class FactorNeeded extends Error {}

export const isSignedIn = () => storage.getItem(key) !== null;
export const signIn = (credentials) => open(`${auth}/login`, credentials);
export const register = (person) => open(`${auth}/register`, person);
export const account = async () => read(await authorized("GET", "api/account"));
export const sessions = async () => (await read(await authorized("GET", "api/sessions"))).sessions;

/// Whether the account can be shown with its ways to sign in, and exported.
export const isDetailed = own !== "";
export async function details() {
  const [account, passkeys, factors] = await Promise.all([
    authorized("GET", own).then(read), offersPasskeys ? authorized("GET", `${own}/passkeys`).then(read) : { passkeys: [] },
    offersFactors ? authorized("GET", `${own}/factors`).then(read) : { factors: [] },
  ]);
  return { ...account, ...passkeys, ...factors };
}

const offers = (name) => own !== "" && document.querySelector(`meta[name=${name}]`).content === "on";

/// Whether accounts may have a second factor.
export const offersFactors = offers("factors");
/// The secret for an authenticator app, and its URI. It waits for its first code.
export const enrolFactor = async () => read(await authorized("POST", `${own}/factors/totp`));
export const confirmFactor = async (code) => read(await authorized("POST", `${own}/factors/totp/verify`, { code }));
export const proveFactor = async (code) => read(await authorized("POST", `${own}/factors/verify`, { code }));
export const makeBackupCodes = async () => (await read(await authorized("POST", `${own}/factors/backup-codes`))).backup_codes;
export const removeFactor = async () => read(await authorized("DELETE", `${own}/factors/totp`));

const offersPasskeys = offers("passkeys");
/// Whether the browser can make and use them.
export const hasPasskeys = offersPasskeys && window.PublicKeyCredential?.parseCreationOptionsFromJSON !== undefined;

/// Signs in by a passkey that the user chooses; with `mediation` "conditional", among what the browser fills in. An open session of the
/// same account is renewed by it.
export async function signInByPasskey({ mediation, signal } = {}) {
  const path = (step) => `${own}/passkeys/authentication/${step}?contract=password`;
  const options = await read(await send("POST", path("options"), { body: {} }));
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  const credential = await navigator.credentials.get({ publicKey, mediation, signal });
  try {
    await open(path("verify"), credential.toJSON(), access);
  } catch (fault) {
    // The account has removed it.
    if (fault.code === "PASSKEY_UNKNOWN") await PublicKeyCredential.signalUnknownCredential?.({ rpId: options.rpId, credentialId: credential.id });
    throw fault;
  }
}

export async function addPasskey() {
  const path = `${own}/passkeys/registration`;
  const options = await read(await authorized("POST", `${path}/options`, {}));
  const credential = await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) });
  return read(await authorized("POST", `${path}/verify`, credential.toJSON()));
}

export const removePasskey = async (id) => read(await authorized("DELETE", `${own}/passkeys/${id}`));
export const unlink = async (provider) => read(await authorized("DELETE", `${own}/identities/${encodeURIComponent(provider)}`));
export const endOthers = async () => read(await authorized("DELETE", `${own}/sessions`));

/// All that is kept, as it is saved.
export async function exported() {
  const text = JSON.stringify(await read(await authorized("GET", `${own}/export`)), null, 2);
  return new Blob([text], { type: "application/json" });
}

/// Deletes the account. Returns until when a sign-in opens it again; null if it is gone.
export async function remove() {
  const { erased_at: end } = await read(await authorized("DELETE", own));
  forget();
  return end ? new Date(end) : null;
}

export async function endSession(id) {
  const answer = await authorized("DELETE", `api/sessions/${encodeURIComponent(id)}`);
  // 404: it has ended meanwhile.
  if (answer.status !== 404) await read(answer);
}

export const signOut = () => leave("api/signout");
export const signOutEverywhere = () => leave("api/signout/everywhere");

async function leave(path) {
  try {
    await read(await authorized("POST", path));
  } catch (fault) {
    // The session has ended already.
    if (!(fault instanceof SignedOut)) throw fault;
  }
  forget();
}

async function open(path, body, token) {
  const { tokens } = await read(await send("POST", path, { body, token }));
  access = tokens.access;
  storage.setItem(key, tokens.refresh);
}

function forget() {
  access = null;
  storage.removeItem(key);
}

/// Sends a request with the access token. After a 401, refreshes the token and retries once.
async function authorized(method, path, body) {
  if (access === null) await refresh();
  const used = access;
  const answer = await send(method, path, { token: used, body });
  if (!await isOfToken(answer)) return answer;
  // Another request may have refreshed it meanwhile.
  if (access === used || access === null) await refresh();
  const again = await send(method, path, { token: access, body });
  if (!await isOfToken(again)) return again;
  forget();
  throw new SignedOut();
}

/// Whether a response says that the token does not count. Throws for one that asks for a newer sign-in or the second factor (RFC 9470),
/// which no refresh gives.
async function isOfToken(answer) {
  if (answer.status !== 401) return false;
  const challenge = answer.headers.get("WWW-Authenticate") ?? "";
  if (challenge.includes("insufficient_user_authentication")) {
    throw challenge.includes("acr_values") ? new FactorNeeded() : new SignInTooOld();
  }
  return (await answer.clone().json().catch(() => null))?.error?.code !== "INVALID_CODE";
}

/// Refreshes the access token, once for all concurrent requests.
function refresh() {
  refreshing ??= renew().finally(() => { refreshing = null; });
  return refreshing;
}

async function renew() {
  const token = storage.getItem(key);
  if (token === null) throw new SignedOut();
  const answer = await send("POST", auth + "/refresh", { body: { refresh: token } });
  if (answer.status === 400 || answer.status === 401) {
    forget();
    throw new SignedOut();
  }
  access = (await read(answer)).access;
}

async function send(method, path, { token, body } = {}) {
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, {
      method, headers, body: body && JSON.stringify(body), cache: "no-store", credentials: "omit",
      redirect: "error", signal: AbortSignal.timeout(20_000),
    });
  } catch {
    throw new Refusal(0, "The server does not answer. Check your connection and try again.");
  }
}

/// The JSON of a successful response; throws for others.
async function read(answer) {
  const value = answer.status === 204 ? {} : await answer.json().catch(() => null);
  if (answer.ok && value !== null) return value;
  throw new Refusal(answer.status, sentence(answer, value), value?.error?.code);
}

function sentence(answer, value) {
  if (answer.status === 429) return `Too many attempts. Try again ${wait(answer)}.`;
  const said = value?.error?.message;
  if (answer.status < 500 && typeof said === "string") return said;
  return `The server is busy. Try again ${wait(answer)}.`;
}

function wait(answer) {
  const seconds = Number(answer.headers.get("Retry-After"));
  if (!(seconds > 0)) return "in a moment";
  if (seconds < 90) return seconds === 1 ? "in a second" : `in ${Math.ceil(seconds)} seconds`;
  return `in ${Math.ceil(seconds / 60)} minutes`;
}
