/// The views of the page and their event handlers.

import * as session from "./session.js";

const find = (id) => document.getElementById(id);
const views = ["sign-in", "register", "account", "closed", "trouble"].map(find);

// MARK: views

/// Shows one view. Moves the focus to its heading if the user asked for it, not when the page has just been opened.
function show(id, { moving = true } = {}) {
  for (const view of views) view.hidden = view.id !== id;
  const heading = find(`${id}-title`);
  document.title = id === "account" ? "Your account" : `${heading.textContent} · Your account`;
  if (moving) heading.focus();
  window.scrollTo(0, 0);
}

let statusTimer;

/// Shows a status message; "" clears it.
function tell(text) {
  clearTimeout(statusTimer);
  find("status").textContent = text;
  statusTimer = setTimeout(() => { find("status").textContent = ""; }, 8_000);
}

function showSignedOut(text) {
  if (text) tell(text);
  clearAccount();
  const id = location.hash === "#register" ? "register" : "sign-in";
  show(id, { moving: text !== undefined });
  offerPasskeys();
}

/// Shows the sign-in and its reason, and keeps the session.
function showSignInAgain(reason) {
  clearAccount();
  show("sign-in");
  find("sign-in").querySelector(".message").textContent = reason;
  offerPasskeys();
}

/// `end`: until when a sign-in opens the account again; null if it is gone.
function showClosed(end) {
  clearAccount();
  find("closed-title").textContent = end ? "Your account is closed" : "Your account is deleted";
  find("closed-text").textContent = end
    ? `It is erased on ${exact.format(end)}. Until then a sign-in opens it again.` : "Nothing signs in to it any more.";
  show("closed");
}

// MARK: forms

const sentences = {
  email: { valueMissing: "Enter your email.", typeMismatch: "Enter an email like ada@example.org." },
  password: { valueMissing: "Enter a password.", tooShort: "Use at least 8 characters." },
};

/// The validation error of a field, or "".
function complaint(input) {
  const found = Object.entries(sentences[input.name] ?? {}).find(([name]) => input.validity[name]);
  if (found) return found[1];
  // Browsers check minlength only for typed text, and count UTF-16 units; the server counts code points after NFC.
  return input.minLength > [...input.value.normalize("NFC")].length ? sentences.password.tooShort : "";
}

function mark(input, text) {
  const hint = find(`${input.id}-hint`);
  hint.textContent = text || hint.dataset.hint || "";
  hint.classList.toggle("wrong", text !== "");
  if (text) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
}

function reveal(button, isShown) {
  const input = find(button.getAttribute("aria-controls"));
  input.type = isShown ? "text" : "password";
  button.textContent = isShown ? "Hide" : "Show";
  button.setAttribute("aria-label", `${button.textContent} password`);
}

/// Shows the server's error, at the field that it is about if there is one.
function explain(form, fault) {
  const text = fault.message.toLowerCase();
  const name = fault.status === 400 && ["password", "email", "username"].find((name) => text.includes(name));
  const input = form.elements[name || "password"];
  if (name) mark(input, fault.message); else form.querySelector(".message").textContent = fault.message;
  input.focus();
  input.select();
}

function prepare(view, ask) {
  const form = view.querySelector("form");
  const inputs = [...form.querySelectorAll("input")];
  const button = form.querySelector(".primary");
  for (const input of inputs) {
    mark(input, "");
    input.addEventListener("input", () => mark(input, ""));
  }
  for (const toggle of form.querySelectorAll(".secret button")) {
    toggle.addEventListener("click", () => reveal(toggle, toggle.textContent === "Show"));
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.getAttribute("aria-busy") === "true") return;
    form.querySelector(".message").textContent = "";
    tell("");
    for (const input of inputs) mark(input, complaint(input));
    const wrong = inputs.find((input) => input.hasAttribute("aria-invalid"));
    if (wrong) return wrong.focus();
    // Password managers offer to save the content of password fields only.
    for (const toggle of form.querySelectorAll(".secret button")) reveal(toggle, false);
    button.setAttribute("aria-busy", "true");
    try {
      const given = inputs.map((input) => [input.name, input.value]).filter(([, value]) => value !== "");
      await ask(Object.fromEntries(given));
      form.reset();
      await enter();
    } catch (fault) {
      explain(form, fault);
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
}

// MARK: passkeys

/// The request for a passkey that waits for the user.
let asked = new AbortController();
let offerTimer;

function endAsking() {
  asked.abort();
  clearTimeout(offerTimer);
}

/// Has the browser offer passkeys where the email is filled in. A challenge ends after five minutes.
async function offerPasskeys() {
  endAsking();
  const { signal } = asked = new AbortController();
  if (!session.hasPasskeys || !await PublicKeyCredential.isConditionalMediationAvailable?.() || signal.aborted) return;
  offerTimer = setTimeout(offerPasskeys, 240_000);
  await signInByPasskey({ mediation: "conditional", signal });
}

async function usePasskey() {
  endAsking();
  const { signal } = asked = new AbortController();
  find("sign-in").querySelector(".message").textContent = "";
  await signInByPasskey({ signal });
  if (!signal.aborted && find("account").hidden) offerPasskeys();
}

async function signInByPasskey(how) {
  try {
    await session.signInByPasskey(how);
    await enter();
  } catch (fault) {
    // Another request has taken its place, or the user has closed the browser's dialog.
    if (how.signal.aborted || fault.name === "NotAllowedError") return;
    find("sign-in").querySelector(".message").textContent = fault.message;
  }
}

async function addPasskey() {
  try {
    await session.addPasskey();
  } catch (fault) {
    if (fault.name === "NotAllowedError") return;
    if (fault.name === "InvalidStateError") return tell("This device has a passkey of the account already.");
    throw fault;
  }
  showWays(await session.details());
  showSessions(await session.sessions());
  find("ways-title").focus();
  tell("You can sign in with this passkey from now on.");
}

// MARK: the second factor

/// Asks for a code until `send` takes one; false if the user gives up. `secret` and `uri` are shown for an authenticator app.
function askForCode(title, text, send, { secret = "", uri = "" } = {}) {
  const [dialog, input] = [find("code-dialog"), find("code")];
  const form = dialog.querySelector("form");
  [find("code-title").textContent, find("code-text").textContent] = [title, text];
  find("secret").hidden = secret === "";
  find("secret").querySelector(".code").textContent = secret.replace(/.{4}(?=.)/g, "$& ");
  find("secret").querySelector("a").href = uri;
  mark(input, "");
  form.reset();
  dialog.showModal();
  input.focus();
  return new Promise((resolve, reject) => {
    const busy = form.querySelector(".primary");
    const isBusy = () => busy.getAttribute("aria-busy") === "true";
    // A code on its way cannot be taken back. Browsers close a dialog by a second Escape although its `cancel` is prevented.
    find("code-cancel").onclick = () => { if (!isBusy()) dialog.close(); };
    dialog.oncancel = (event) => { if (isBusy()) event.preventDefault(); };
    dialog.onkeydown = (event) => { if (event.key === "Escape" && isBusy()) event.preventDefault(); };
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (isBusy()) return;
      if (input.value.trim() === "") return mark(input, "Enter a code.");
      busy.setAttribute("aria-busy", "true");
      try {
        await send(input.value);
        resolve(true);
        dialog.close();
      } catch (fault) {
        if (fault instanceof session.Refusal) {
          mark(input, fault.code === "INVALID_CODE" ? "This code is wrong, or it was used before." : fault.message);
          return input.select();
        }
        reject(fault);
        dialog.close();
      } finally {
        busy.removeAttribute("aria-busy");
      }
    };
    dialog.onclose = () => {
      form.reset();
      find("secret").querySelector(".code").textContent = "";
      find("secret").querySelector("a").removeAttribute("href");
      resolve(false);
    };
  });
}

/// Makes a call, and again once the user has proven the second factor, if it demands that. Undefined if the user gives up.
async function proven(ask) {
  try {
    return await ask();
  } catch (fault) {
    if (!(fault instanceof session.FactorNeeded)) throw fault;
  }
  const text = "Enter a code of your authenticator app, or one of your backup codes.";
  if (await askForCode("Confirm that it is you", text, session.proveFactor)) return await ask();
}

async function addFactor() {
  const text = "Enter this secret in your authenticator app, and the code here that the app then shows.";
  if (!await askForCode("Set up an authenticator app", text, session.confirmFactor, await session.enrolFactor())) return;
  await makeBackupCodes();
}

/// Shows new backup codes, which are never shown again.
async function makeBackupCodes() {
  try {
    const codes = await session.makeBackupCodes();
    find("backup-codes").replaceChildren(...codes.map((code) => Object.assign(document.createElement("li"), { textContent: code })));
    find("backup-dialog").showModal();
  } finally {
    showWays(await session.details());
  }
}

// MARK: account

/// Shows the account. `moving`: the user has just signed in.
async function enter({ moving = true } = {}) {
  // If the user has to sign in again, show the sign-in form.
  endAsking();
  history.replaceState(null, "", location.pathname);
  clearAccount();
  find("account").setAttribute("aria-busy", "true");
  show("account", { moving });
  try {
    const details = session.isDetailed ? session.details() : null;
    const [account, sessions, detailed] = await Promise.all([session.account(), session.sessions(), details]);
    showAccount(account);
    // First: the sessions name the account's providers.
    if (detailed) showWays(detailed);
    showSessions(sessions);
    find("account").setAttribute("aria-busy", "false");
  } catch (fault) {
    leave(fault);
  }
}

/// Handles an error of a signed-in user.
function leave(fault) {
  if (fault instanceof session.SignedOut) return showSignedOut("Your session has ended. Sign in again.");
  find("trouble-text").textContent = fault.message;
  show("trouble");
}

const date = new Intl.DateTimeFormat("en-GB", { dateStyle: "long" });
const shortDate = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" });
const capitalised = (word) => word.charAt(0).toUpperCase() + word.slice(1);

function showAccount(account) {
  const name = account.username || account.email || "Guest";
  const tier = capitalised(account.tier);
  find("initial").textContent = [...name][0].toUpperCase();
  find("username").textContent = name;
  find("email").textContent = account.email ?? "";
  find("email").hidden = !account.email || account.email === name;
  find("tier").textContent = tier;
  find("tier").classList.toggle("premium", account.is_premium);
  find("plan").textContent = account.tier_until ? `${tier} until ${date.format(new Date(account.tier_until))}` : tier;
  find("account-id").textContent = account.id;
}

/// Removes the account's data from the page, for the next user of the browser.
function clearAccount() {
  for (const id of ["initial", "username", "email", "tier", "plan", "account-id"]) find(id).textContent = "";
  find("email").hidden = false;
  find("tier").classList.remove("premium");
  providers = [];
  hasPasskeys = false;
  for (const id of ["sessions", "identities", "backup-codes"]) find(id).replaceChildren();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  for (const id of ["sign-out-everywhere", "end-others", "ways"]) find(id).hidden = true;
}

// MARK: ways to sign in

const titles = { apple: "Apple", google: "Google", microsoft: "Microsoft", facebook: "Facebook", line: "LINE", kakao: "Kakao" };

const title = (provider) => titles[provider] ?? provider;
/// The names of those that sign in to the account.
let providers = [];
let hasPasskeys = false;

/// One way to sign in; `unlink` is called by its button, which is there for providers, passkeys and the second factor.
function way(name, text, unlink, verb = "Unlink") {
  const item = find("identity").content.firstElementChild.cloneNode(true);
  item.querySelector(".name").textContent = name;
  item.querySelector(".quiet").textContent = text;
  const button = item.querySelector("button");
  button.hidden = !unlink;
  button.textContent = verb;
  button.setAttribute("aria-label", `${verb} ${name}`);
  if (unlink) prepareCall(button, unlink);
  return item;
}

function showWays(account) {
  const proven = account.email_verified ? "Confirmed" : "Not confirmed";
  const contacts = [
    ...(account.email ? [way("Email", `${account.email} · ${proven}`)] : []), ...(account.phone ? [way("Phone", account.phone)] : []),
  ];
  providers = account.identities.map(({ provider }) => title(provider));
  hasPasskeys = account.passkeys.length > 0;
  const identities = account.identities.map(({ provider, linked_at: linked }) => {
    const name = title(provider);
    return way(name, `Since ${shortDate.format(new Date(linked))}`, async () => {
      await session.unlink(provider);
      showWays(await session.details());
      showSessions(await session.sessions());
      find("ways-title").focus();
      tell(`Unlinked: ${name}. All other sessions have ended.`);
    });
  });
  const passkeys = account.passkeys.map(({ id, name, created_at: created }) =>
    way(name, `Passkey · since ${shortDate.format(new Date(created))}`, async () => {
      await session.removePasskey(id);
      showWays(await session.details());
      showSessions(await session.sessions());
      find("ways-title").focus();
      tell(`Removed: ${name}. All other sessions have ended.`);
    }, "Remove"));
  const factors = account.factors.map(({ created_at: created }) => {
    const left = account.backup_codes === 1 ? "1 backup code left" : `${account.backup_codes} backup codes left`;
    return way("Authenticator app", `Since ${shortDate.format(new Date(created))} · ${left}`, async () => {
      await session.removeFactor();
      showWays(await session.details());
      find("ways-title").focus();
      tell("Removed: Authenticator app.");
    }, "Remove");
  });
  find("identities").replaceChildren(...contacts, ...identities, ...passkeys, ...factors);
  find("add-passkey").hidden = !session.hasPasskeys;
  find("add-factor").hidden = !session.offersFactors || factors.length > 0;
  find("renew-codes").hidden = factors.length === 0;
  find("ways").hidden = false;
}

async function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await session.exported());
  link.download = "account.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function remove() {
  let end;
  try {
    end = await session.remove();
  } finally {
    find("delete-dialog").close();
  }
  showClosed(end);
}

// MARK: sessions

const ways = { password: ", with a password", dlauth: ", with a password", apple: ", with Apple", anonymous: ", as a guest" };
const either = new Intl.ListFormat("en", { type: "disjunction" });

/// How the user of a session signed in. A session does not say by which of the account's providers and passkeys.
function how(contract) {
  const usual = contract === "provider" ? providers.length > 0 && `, with ${either.format(providers)}` : ways[contract];
  return usual ? usual + (hasPasskeys ? " or a passkey" : "") : "";
}

const units = [["day", 86_400], ["hour", 3_600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/// "5 minutes ago"; the date if it is more than a month ago.
function ago(then) {
  const seconds = (Date.now() - then) / 1_000;
  if (seconds >= 31 * 86_400) return `on ${shortDate.format(then)}`;
  const unit = units.find(([, length]) => seconds >= length);
  return unit ? relative.format(-Math.floor(seconds / unit[1]), unit[0]) : "just now";
}

function put(element, moment, text) {
  element.textContent = text;
  element.dateTime = moment.toISOString();
  element.title = exact.format(moment);
}

function item(entry) {
  const item = find("session").content.firstElementChild.cloneNode(true);
  const name = entry.device ?? "Unknown device";
  item.classList.toggle("mobile", /iPhone|iPad|Android|Apple device|phone|tablet/i.test(name));
  item.querySelector(".device-name").textContent = name;
  item.querySelector(".here").hidden = !entry.current;
  const [used, created] = [new Date(entry.last_used_at), new Date(entry.created_at)];
  put(item.querySelector(".used"), used, ago(used));
  put(item.querySelector(".created"), created, shortDate.format(created));
  item.querySelector(".from").textContent = entry.address ? `, from ${entry.address}` : "";
  item.querySelector(".how").textContent = how(entry.contract);
  const button = item.querySelector("button");
  // The current session is ended by signing out.
  if (entry.current) button.remove();
  button.setAttribute("aria-label", `End the session: ${name}`);
  prepareCall(button, () => end(entry, item, name));
  return item;
}

function showSessions(entries) {
  const newest = (left, right) => right.current - left.current || right.last_used_at.localeCompare(left.last_used_at);
  find("sessions").replaceChildren(...[...entries].sort(newest).map(item));
  countSessions();
}

/// With one session, signing out everywhere is the same as signing out.
function countSessions() {
  const isAlone = find("sessions").childElementCount < 2;
  find("sign-out-everywhere").hidden = isAlone;
  find("end-others").hidden = isAlone || !session.isDetailed;
}

async function end(entry, item, name) {
  await session.endSession(entry.id);
  const next = item.nextElementSibling?.querySelector("button") ?? find("sessions-title");
  item.remove();
  countSessions();
  next.focus();
  tell(`Ended: ${name}.`);
}

async function endOthers() {
  await session.endOthers();
  showSessions(await session.sessions());
  find("sessions-title").focus();
  tell("All others are signed out.");
}

/// Makes a button call `ask` for the signed-in user. Clicks during the call are ignored.
function prepareCall(button, ask) {
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    try {
      await proven(ask);
    } catch (fault) {
      if (fault instanceof session.SignedOut) leave(fault);
      else if (fault instanceof session.SignInTooOld) showSignInAgain("Your last sign-in is too long ago for that. Sign in, and try again.");
      else tell(fault.message);
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
}

/// Makes a button sign out by `ask`. Clicks during the call are ignored.
function prepareSignOut(button, ask, text) {
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    try {
      await ask();
      showSignedOut(text);
    } catch (fault) {
      tell(fault.message);
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
}

// MARK: start

prepare(find("sign-in"), session.signIn);
prepare(find("register"), session.register);
prepareSignOut(find("sign-out"), session.signOut, "You are signed out.");
prepareSignOut(find("sign-out-everywhere"), session.signOutEverywhere, "You are signed out everywhere.");
prepareCall(find("end-others"), endOthers);
prepareCall(find("add-passkey"), addPasskey);
prepareCall(find("add-factor"), addFactor);
prepareCall(find("renew-codes"), makeBackupCodes);
find("code").addEventListener("input", () => mark(find("code"), ""));
find("backup-close").addEventListener("click", () => find("backup-dialog").close());
find("backup-dialog").addEventListener("close", () => {
  find("backup-codes").replaceChildren();
  find("ways-title").focus();
});
find("passkey-sign-in").hidden = !session.hasPasskeys;
find("passkey-sign-in").addEventListener("click", usePasskey);
prepareCall(find("export"), save);
find("delete").addEventListener("click", () => find("delete-dialog").showModal());
find("delete-cancel").addEventListener("click", () => find("delete-dialog").close());
prepareCall(find("delete-confirm"), remove);
find("to-sign-in").addEventListener("click", () => showSignedOut(""));
find("retry").addEventListener("click", () => enter());
window.addEventListener("hashchange", () => { if (find("account").hidden) showSignedOut(""); });
if (session.isSignedIn()) enter({ moving: false }); else showSignedOut();
