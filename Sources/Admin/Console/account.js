/// One account: who it is, its tier, its sessions, its audit log, and what the operator may do with it.

import { ask, get } from "./api.js";
import { auditLog } from "./audit.js";
import { deviceName } from "./device.js";
import { Complaint, confirm } from "./dialog.js";
import { badge, empty, facts, faultNotice, fill, h, loading, none, panel, setText, toast, verbatim } from "./dom.js";
import { count, when } from "./format.js";
import { purchaseList } from "./purchases.js";
import { table } from "./table.js";

/// How an account is called: its email, phone or username, else its id.
export const nameOf = (user) => user.email ?? user.phone ?? user.username ?? user.id;

const titleOf = (session) => session.device_name ?? deviceName(session.device) ?? "Unknown device";

/// The device of a session by its name or a short one, and what it calls itself.
function device(session) {
  const text = session.device;
  const shown = text && text.length > 120 ? `${text.slice(0, 120)}…` : text;
  const key = session.device_key && [" ", h("span", { class: "badge good", title: session.device_key }, "device key")];
  const proof = session.factor_proven_at
    && h("span", { class: "quiet small block" }, "Second factor proven ", when(session.factor_proven_at));
  return [titleOf(session), key, proof, text && h("span", { title: text, class: "quiet small block device" }, shown)];
}

const proven = (text, at) => text && [text, " ", at ? badge("confirmed", "good") : badge("not confirmed", "warn")];

const codes = (texts) => texts?.length > 0 ? h("ul", { class: "rules" }, texts.map((text) => h("li", {}, h("code", {}, text)))) : null;

/// Each reason for a tier; only the operator's own needs no list.
const grants = (all) => all?.some(({ source }) => source !== "operator") ? h("ul", { class: "rules" }, all.map(({ source, key, tier, until }) =>
  h("li", {}, badge(tier, "accent"), " by ", source, until && [" until ", when(until)], key && [" ", h("code", {}, key)]))) : null;

// MARK: actions

/// The names of the tiers, of the configuration; empty if it does not say.
async function tierNames() {
  try {
    const { settings } = await get(["configuration"]);
    return settings.find(({ name }) => name === "TOLLGATE_TIERS")?.value?.split(/[\s,]+/).filter(Boolean) ?? [];
  } catch {
    // The dialog then has a text field: the gateway names the tiers if it refuses one.
    return [];
  }
}

async function changeTier(user) {
  const names = await tierNames();
  const tier = names.length > 0
    ? h("select", { id: "tier-name" }, names.map((name) => h("option", { selected: name === user.tier }, name)))
    : h("input", { id: "tier-name", type: "text", value: user.tier, ...verbatim });
  const until = h("input", { id: "tier-until", type: "datetime-local", "aria-describedby": "tier-until-hint" });
  return confirm({
    title: "Change the tier", isDangerous: false, button: "Change the tier",
    text: `${nameOf(user)} has the tier ${user.tier}. A change counts at every gateway within a second, also for tokens that are out.`,
    fields: [
      h("div", { class: "field" }, h("label", { for: "tier-name" }, "Tier"), tier),
      h("div", { class: "field" }, h("label", { for: "tier-until" }, "Until"), until,
        h("p", { id: "tier-until-hint", class: "quiet small" }, "In this browser's time zone. Empty: without an end.")),
    ],
    async action() {
      if (until.validity.badInput) throw new Complaint(until, "This is no date with a time.");
      const body = { tier: tier.value.trim() };
      if (until.value) body.until = new Date(until.value).toISOString();
      await ask("PUT", ["users", user.id, "tier"], { body });
      toast(`${nameOf(user)} now has the tier ${body.tier}.`);
    },
  });
}

/// Whether a ban is not over.
const isBanned = ({ ban }) => ban && !(ban.until && Date.parse(ban.until) <= Date.now());

function ban(user) {
  const until = h("input", { id: "ban-until", type: "datetime-local", "aria-describedby": "ban-until-hint" });
  const reason = h("input", { id: "ban-reason", type: "text", maxlength: 200 });
  return confirm({
    title: "Ban this account?", button: "Ban the account",
    text: `All sessions of ${nameOf(user)} end, and every gateway refuses its tokens and sign-ins within a second.`,
    fields: [
      h("div", { class: "field" }, h("label", { for: "ban-until" }, "Until"), until,
        h("p", { id: "ban-until-hint", class: "quiet small" }, "In this browser's time zone. Empty: for good.")),
      h("div", { class: "field" }, h("label", { for: "ban-reason" }, "Reason, which the user is not told"), reason),
    ],
    async action() {
      if (until.validity.badInput) throw new Complaint(until, "This is no date with a time.");
      const body = {};
      if (until.value) body.until = new Date(until.value).toISOString();
      if (reason.value.trim()) body.reason = reason.value.trim();
      await ask("PUT", ["users", user.id, "ban"], { body });
      toast(`${nameOf(user)} is banned.`);
    },
  });
}

function unban(user) {
  return confirm({
    title: "Lift the ban?", isDangerous: false, button: "Lift the ban",
    text: `${nameOf(user)} may sign in again. The sessions that the ban ended stay ended.`,
    async action() {
      await ask("DELETE", ["users", user.id, "ban"]);
      toast(`${nameOf(user)} is not banned.`);
    },
  });
}

function resetFactors(user) {
  return confirm({
    title: "Remove the second factor?", button: "Remove the second factor",
    text: `${nameOf(user)} signs in without one, and is told where TOLLGATE_NOTICES is set. Make sure that it is the user who asks.`,
    async action() {
      const { removed } = await ask("DELETE", ["users", user.id, "factors"]);
      toast(removed ? `${nameOf(user)} has no second factor now.` : `${nameOf(user)} had no second factor.`);
    },
  });
}

function changeAttributes(user) {
  const text = h("textarea", { id: "attributes-json", rows: 8, "aria-describedby": "attributes-hint", ...verbatim },
    JSON.stringify(user.attributes ?? {}, null, 2));
  return confirm({
    title: "Change the attributes", isDangerous: false, button: "Change the attributes",
    text: `A change of the attributes of ${nameOf(user)} counts at every gateway within a second.`,
    fields: [
      h("div", { class: "field" }, h("label", { for: "attributes-json" }, "Attributes"), text,
        h("p", { id: "attributes-hint", class: "quiet small" }, "One JSON object of at most 4096 bytes. It replaces all of them.")),
    ],
    async action() {
      let attributes;
      try { attributes = JSON.parse(text.value); } catch { throw new Complaint(text, "This is no JSON."); }
      if (typeof attributes !== "object" || attributes === null || Array.isArray(attributes)) {
        throw new Complaint(text, "This is no object, write one like {\"role\": \"editor\"}.");
      }
      await ask("PUT", ["users", user.id, "attributes"], { body: { attributes } });
      toast(`The attributes of ${nameOf(user)} were changed.`);
    },
  });
}

function endSession(user, session) {
  return confirm({
    title: "End this session?", button: "End the session",
    text: `The tokens of this session of ${nameOf(user)} are refused at every gateway within a second, and the device must sign in again.`,
    async action() {
      await ask("DELETE", ["sessions", session.id]);
      toast("The session has ended.");
    },
  });
}

function endAll(user) {
  return confirm({
    title: "End all sessions?", button: "End all sessions",
    text: `${nameOf(user)} is signed out on ${user.sessions.length === 1 ? "one device" : `${user.sessions.length} devices`} and must sign in again.`,
    async action() {
      const answer = await ask("POST", ["users", user.id, "revoke"]);
      toast(`${count(answer?.sessions_ended ?? 0)} ${answer?.sessions_ended === 1 ? "session has" : "sessions have"} ended.`);
    },
  });
}

function mergeDone(user, from) {
  return confirm({
    title: "End the announcement?", isDangerous: false, button: "End the announcement",
    text: `Services are no longer told that the account ${from} was merged into ${nameOf(user)}. What they have not moved stays under its id.`,
    async action() {
      await ask("POST", ["users", user.id, "merges", from, "done"]);
      toast("The merge is announced no longer.");
    },
  });
}

function removePasskey(user, id, name) {
  return confirm({
    title: "Remove this passkey?", button: "Remove the passkey",
    text: `${name} signs in to the account of ${nameOf(user)} no more, and all sessions of the account end.`,
    async action() {
      await ask("DELETE", ["users", user.id, "passkeys", id]);
      toast("The passkey is removed.");
    },
  });
}

// MARK: the page

/// Merges that services may still have to follow, each with a button.
const merges = (user, changed) => user.merges?.length > 0 ? h("ul", { class: "rules" }, user.merges.map(({ from, until }) =>
  h("li", {}, h("code", {}, from), " announced until ", when(until), " ", h("button", {
    type: "button", class: "plain", "aria-label": `End the announcement of ${from}`,
    async onclick() { if (await mergeDone(user, from)) changed("account-title"); },
  }, "Done")))) : null;

/// The passkeys, each with a button.
const passkeys = (user, changed) => user.passkeys?.length > 0 ? h("ul", { class: "rules" }, user.passkeys.map(({ id, name, last_used_at: at }) =>
  h("li", {}, name, at ? [", last used ", when(at)] : ", never used", " ", h("button", {
    type: "button", class: "plain danger-text", "aria-label": `Remove the passkey ${name}`,
    async onclick() { if (await removePasskey(user, id, name)) changed("account-title"); },
  }, "Remove")))) : null;

/// The second factor, with the backup codes that are left.
const factors = (user) => user.factors?.map(({ created_at: at, backup_codes: left }) =>
  ["authenticator app", at && [" since ", when(at)], `, backup codes left: ${count(left)}`]);

function sessionTable(user, changed) {
  const list = table({
    caption: "Sessions", key: ({ id }) => id,
    empty: empty("No open session", "A sign-in opens one; device, address and last use are shown."),
    columns: [
      { head: "Device", isHead: true, kind: "grow", cell: device },
      { head: "Address", cell: ({ address }) => address ? h("code", {}, address) : none() },
      { head: "Contract", cell: ({ contract }) => contract },
      { head: "Last used", cell: ({ last_used_at: at }) => when(at) },
      { head: "Signed in", cell: ({ created_at: at }) => when(at) },
      { head: "Ends", cell: ({ expires_at: at }) => when(at) },
      {
        head: "Action", hideHead: true, kind: "right",
        cell: (session) => h("button", {
          type: "button", class: "plain danger-text", "aria-label": `End the session: ${titleOf(session)}`,
          async onclick() { if (await endSession(user, session)) changed("sessions-title"); },
        }, "End"),
      },
    ],
  });
  list.show([...user.sessions].sort((one, other) => other.last_used_at.localeCompare(one.last_used_at)));
  return list.element;
}

function show(user, log, purchases, changed) {
  const tierButton = h("button", {
    type: "button", id: "change-tier", async onclick() { if (await changeTier(user)) changed("change-tier"); },
  }, "Change the tier");
  const endButton = user.sessions.length > 0 && h("button", {
    type: "button", class: "danger-text", async onclick() { if (await endAll(user)) changed("sessions-title"); },
  }, "End all sessions");
  const banButton = h("button", {
    type: "button", id: "ban", class: isBanned(user) ? "" : "danger-text",
    async onclick() { if (await (isBanned(user) ? unban(user) : ban(user))) changed("ban"); },
  }, isBanned(user) ? "Lift the ban" : "Ban the account");
  const factorsButton = user.factors?.length > 0 && h("button", {
    type: "button", async onclick() { if (await resetFactors(user)) changed("account-title"); },
  }, "Remove the second factor");
  const attributesButton = h("button", {
    type: "button", id: "change-attributes", async onclick() { if (await changeAttributes(user)) changed("change-attributes"); },
  }, "Change the attributes");
  const metadata = JSON.stringify(user.metadata ?? {}, null, 2);
  const attributes = JSON.stringify(user.attributes ?? {}, null, 2);
  return [
    h("div", { class: "grid-2" },
      panel("Account", { id: "account", tools: [factorsButton, banButton] }, facts([
        ["ID", h("code", {}, user.id)], ["Email", proven(user.email, user.email_confirmed_at)],
        ["Phone", proven(user.phone, user.phone_confirmed_at)],
        ["Username", user.username], ["Name", [user.given_name, user.family_name].filter(Boolean).join(" ")],
        ["Password", user.has_password ? "yes" : "none"], ["Opened", [when(user.created_at), ` by ${user.opened_by}`]],
        ["Changed", when(user.updated_at)],
        ["Banned", isBanned(user) && [user.ban.until ? ["until ", when(user.ban.until)] : "for good", user.ban.reason && `, ${user.ban.reason}`]],
        ["Closed", user.erased_at && ["erased at ", when(user.erased_at)]],
        ["Identities", codes(user.identities?.map(({ provider, subject }) => `${provider}:${subject}`))],
        ["Passkeys", passkeys(user, changed)],
        ["Second factor", user.factors?.length > 0 ? factors(user) : "none"],
        ["Merged", merges(user, changed)],
        ["May act as", codes(user.actors?.map(({ type, id }) => `${type} ${id}`))],
        ["Metadata", metadata === "{}" ? null : h("pre", { class: "small" }, metadata)],
      ])),
      panel("Tier", { id: "tier", tools: [tierButton] }, facts([
        ["Tier", badge(user.tier, "accent")],
        ["Until", user.tier_until ? when(user.tier_until) : "without an end"],
        ["Subscription", user.has_active_subscription ? badge("active", "good") : "none active"],
        ["Grants", grants(user.grants)],
      ]))),
    panel("Attributes", { id: "attributes", tools: [attributesButton] }, attributes === "{}"
      ? empty("No attributes", "Routes can require and forward them.") : h("pre", { class: "small" }, attributes)),
    panel("Sessions", { id: "sessions", tools: [endButton], note: `${count(user.sessions.length)} open` }, sessionTable(user, changed)),
    panel("Purchases", { id: "purchases" }, purchases.element),
    panel("Audit log", { id: "audit", note: "newest first" }, log.element),
  ];
}

/// Shows the account with this id, or `NAME:SUBJECT`.
export function showAccount(root, id) {
  const stop = new AbortController();
  const title = h("h1", { tabindex: "-1" }, "Account");
  const place = h("div", { class: "stack" }, loading());
  let lists = [];
  fill(root, h("div", { class: "page-head" }, h("div", {}, h("a", { href: "#/people", class: "back" }, "← People"), title)), place);

  /// `focus` is the element that has the focus afterwards: that of before is gone.
  async function load(focus) {
    try {
      const user = { sessions: [], ...await get(["users", id], {}, stop.signal) };
      setText(title, nameOf(user));
      document.title = `${title.textContent} · Tollgate`;
      for (const list of lists) list.end();
      lists = [auditLog({ user: user.id }), purchaseList({ account: user.id, changed: () => load("purchases-title") })];
      fill(place, show(user, ...lists, load));
      if (typeof focus !== "string") return;
      const target = document.getElementById(focus);
      if (target?.tagName === "H2") target.setAttribute("tabindex", "-1");
      target?.focus();
    } catch (error) {
      if (error.name !== "AbortError") fill(place, faultNotice(error, load));
    }
  }
  load();
  return () => {
    stop.abort();
    for (const list of lists) list.end();
  };
}
