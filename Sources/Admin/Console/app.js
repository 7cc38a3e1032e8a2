/// The frame: sign-in, navigation by the fragment of the address, the state of the connection.

import { ask, onSignedOut } from "./api.js";
import { find, fill, h, s, setText, announce, faultNotice } from "./dom.js";
import { keepTimesMoving, span } from "./format.js";
import * as live from "./live.js";
import { page as cache } from "./cache.js";
import { page as configuration } from "./configuration.js";
import { page as keys } from "./keys.js";
import { page as limits } from "./limits.js";
import { page as now } from "./now.js";
import { page as outbox } from "./outbox.js";
import { page as people } from "./people.js";
import { page as purchases } from "./purchases.js";
import { page as refusals } from "./refusals.js";
import { page as routes } from "./routes.js";
import { page as switches } from "./switches.js";

/// Name in the address, title, icon and module. A page has `mount(root, rest)`, which answers how to end it, and may have
/// `update(rest)` for another address of the same page.
const pages = [
  ["now", "Now", "M2 12h4l3-8 4 16 3-8h6", now],
  ["routes", "Routes", "M6 4v10a4 4 0 0 0 4 4h8m-4-4 4 4-4 4M6 4l-3 3m3-3 3 3", routes],
  ["cache", "Cache", "M12 3c4 0 8 1 8 3s-4 3-8 3-8-1-8-3 4-3 8-3zM4 6v12c0 2 4 3 8 3s8-1 8-3V6M4 12c0 2 4 3 8 3s8-1 8-3", cache],
  ["switches", "Switches", "M8 6h8a6 6 0 0 1 0 12H8A6 6 0 0 1 8 6zm8 3a3 3 0 1 0 0 6 3 3 0 0 0 0-6z", switches],
  ["refusals", "Refusals", "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM5.6 5.6l12.8 12.8", refusals],
  ["people", "People", "M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zm-7 10a7 7 0 0 1 14 0M16 3.5a4 4 0 0 1 0 7M18.5 14.5a7 7 0 0 1 3.5 6.5", people],
  ["purchases", "Purchases", "M5 8h14l-1 13H6zM9 8V6a3 3 0 0 1 6 0v2", purchases],
  ["keys", "Keys", "M8 20a5 5 0 1 0 0-10 5 5 0 0 0 0 10zm3.5-8.5L20 3m-4 4 3 3", keys],
  ["limits", "Limits", "M4 18a9 9 0 1 1 16 0M12 13l4-5", limits],
  ["outbox", "Outbox", "M3 7h18v12H3zm0 0 9 7 9-7", outbox],
  ["configuration", "Configuration", "M4 6h10m4 0h2M4 12h2m4 0h10M4 18h8m4 0h4M14 4v4M6 10v4M12 16v4", configuration],
];

const main = find("main");
let current = null;

// MARK: navigation

function buildNavigation() {
  fill(find("nav"), h("ul", {}, pages.map(([name, title, icon]) => h("li", {}, h("a", { href: `#/${name}`, "data-page": name },
    s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, s("path", { d: icon })), h("span", {}, title))))));
}

/// The page and the rest of the address: `#/people/ID` is `["people", ["ID"]]`.
function place() {
  const [, name, ...rest] = location.hash.split("/");
  const decode = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  return [pages.find(([known]) => known === name) ?? pages[0], rest.filter((part) => part !== "").map(decode)];
}

/// Shows the page of the address. The focus moves to its heading, unless the console has just been opened.
function navigate({ moving = true } = {}) {
  const [[name, title, , page], rest] = place();
  showMenu(false);
  if (current?.name === name && current.page.update?.(rest)) return;
  leave();
  for (const link of find("nav").querySelectorAll("a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = `${title} · Tollgate`;
  fill(main);
  current = { name, page };
  try {
    current.end = page.mount(main, rest);
  } catch (error) {
    console.error(error);
    fill(main, faultNotice({ kind: "failed", title: "The page failed", message: error.message }));
  }
  window.scrollTo(0, 0);
  if (moving) main.querySelector("h1")?.focus();
}

function leave() {
  current?.end?.();
  current = null;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

function showMenu(isOpen) {
  find("menu").setAttribute("aria-expanded", String(isOpen));
  find("side-body").classList.toggle("open", isOpen);
}

// MARK: sign-in

function showSignIn(reason = "") {
  leave();
  live.stop();
  live.forget();
  fill(main);
  find("shell").hidden = true;
  find("sign-in").hidden = false;
  document.title = "Sign in · Tollgate";
  setText(find("sign-in-reason"), reason);
  find("sign-in-fault").textContent = "";
  find("token").value = "";
  find("token").focus();
}

function showConsole({ moving }) {
  find("sign-in").hidden = true;
  find("shell").hidden = false;
  live.start();
  navigate({ moving });
}

async function signIn(event) {
  event.preventDefault();
  const field = find("token");
  const message = find("sign-in-fault");
  const button = event.target.querySelector("button");
  const token = field.value.trim();
  message.textContent = token === "" ? "Enter the admin token." : "";
  if (token === "") return field.focus();
  button.disabled = true;
  try {
    await ask("POST", ["session"], { body: { token } });
    field.value = "";
    showConsole({ moving: true });
  } catch (error) {
    message.textContent = error.status === 401 ? "This is not the admin token."
      : error.kind === "offline" ? "The gateway does not answer. Is it running, and is the network up?" : error.message;
    field.select();
  } finally {
    button.disabled = false;
  }
}

async function signOut() {
  try {
    await ask("DELETE", ["session"]);
    showSignIn("You are signed out.");
  } catch (error) {
    if (error.kind !== "signed-out") announce(error.message);
    setText(find("link-state"), error.message);
  }
}

// MARK: state of the connection

const stateTexts = { starting: "Connecting…", live: "Live", polling: "Polling", stopped: "Stopped" };

function showState() {
  const { name, reason, until } = live.state;
  const element = find("link-state");
  const before = element.dataset.state;
  // The countdown is not read out each second, only that it began and ended.
  if (name === "waiting" && before !== name) announce("The gateway does not answer. The console keeps trying.");
  if (name === "live" && before === "waiting") announce("The gateway answers again.");
  element.dataset.state = name;
  const wait = Math.max(0, Math.ceil((until - Date.now()) / 1_000));
  const text = name === "waiting" ? `No answer. ${wait > 0 ? `Trying again in ${wait} s` : "Trying again…"}` : stateTexts[name];
  if (element.firstChild?.textContent !== text) {
    fill(element, h("span", {}, text), name === "waiting" && h("button", { type: "button", class: "plain", onclick: live.hurry }, "Try now"),
      name === "polling" && reason && h("span", { class: "quiet" }, reason));
  }
  element.title = name === "waiting" ? reason : "";
}

function showInstance({ now }) {
  setText(find("instance"), `${now.version ? `Version ${now.version}` : ""}${now.uptime_seconds ? `, up ${span(now.uptime_seconds)}` : ""}`);
  find("instance").title = now.instance ?? "";
}

/// A page in the background leaves its place at the stream to others after a minute.
function mindTheBackground() {
  let timer;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (find("shell").hidden) return;
    if (document.hidden) timer = setTimeout(live.stop, 60_000); else live.start();
  });
}

// MARK: start

async function start() {
  buildNavigation();
  keepTimesMoving();
  mindTheBackground();
  onSignedOut(() => { if (find("sign-in").hidden) showSignIn("The sign-in has ended. Sign in again."); });
  live.on("state", showState);
  live.on("now", showInstance);
  setInterval(() => { if (live.state.name === "waiting") showState(); }, 1_000);
  find("sign-in-form").addEventListener("submit", signIn);
  find("sign-out").addEventListener("click", signOut);
  find("menu").addEventListener("click", () => showMenu(find("menu").getAttribute("aria-expanded") !== "true"));
  find("skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.querySelector("main:not([hidden]) h1")?.focus();
  });
  window.addEventListener("hashchange", () => { if (!find("shell").hidden) navigate(); });
  window.addEventListener("online", live.hurry);
  try {
    await ask("GET", ["session"]);
    showConsole({ moving: false });
  } catch (error) {
    if (error.kind === "signed-out") showSignIn();
    else if (error.kind === "offline" || error.kind === "away") showConsole({ moving: false });
    else showSignIn(error.message);
  }
}

start();
