/// The audit log, of all accounts or of one, a page at a time.

import { get } from "./api.js";
import { badge, below, empty, fill, h, none, panel, userName } from "./dom.js";
import { label, when } from "./format.js";
import { pages, size, table } from "./table.js";

const alarming = new Set(["refresh-reuse", "account-deleted", "account-taken", "device-key-refused"]);

/// The detail of an event, and the session that it is about.
function details({ detail, session }) {
  return detail || session ? [detail, session && [detail && ", ", h("span", { class: "quiet" }, "session "), h("code", {}, session)]] : none();
}

/// The log; `user` restricts it to one account. `load()` reads it anew.
export function auditLog({ user }) {
  const list = table({
    caption: user ? "Audit log of this account" : "Audit log", key: ({ id }) => id,
    empty: empty("Nothing has happened yet", "Sign-ups, sign-ins, changes of password, email or tier, and ended sessions appear here."),
    columns: [
      { head: "Time", cell: ({ at }) => when(at) },
      { head: "Event", isHead: true, cell: ({ event }) => badge(label(event), alarming.has(event) ? "bad" : "neutral") },
      ...(user ? [] : [{ head: "Account", cell: ({ user: id, email }) => id ? [email && h("div", { class: "breaks" }, email), userName(id)] : null }]),
      { head: "By", cell: ({ actor, token, address }) => [[actor, token].filter(Boolean).join(" ") || none(), address && below(h("code", {}, address))] },
      { head: "Detail", kind: "grow", cell: details },
    ],
  });

  return pages(list, async (before, signal) => (await get(["audit"], { user, limit: size, before }, signal)).events);
}

/// The services that are told of accounts, and what waits for them; nothing where there are none.
export function subscribers() {
  const place = h("div", {});
  const running = new AbortController();
  const list = table({
    caption: "Services that get events", key: ({ name }) => name, empty: empty("No service", "No events were sent yet."),
    columns: [
      { head: "Service", isHead: true, cell: ({ name }) => name },
      { head: "State", cell: ({ waiting, parked }) => parked > 0 ? badge("parked", "bad") : waiting > 0 ? badge("waiting", "warn") : badge("arrive", "good") },
      { head: "Waiting", kind: "right", cell: ({ waiting }) => String(waiting) },
      { head: "Parked", kind: "right", cell: ({ parked }) => String(parked) },
      { head: "Since", cell: ({ waiting_since: since }) => since ? when(since) : none() },
      { head: "Reason", kind: "grow", cell: ({ failure }) => failure ?? none() },
    ],
  });
  get(["event-subscribers"], {}, running.signal).then(({ subscribers: all }) => {
    if (all.length === 0) return;
    list.show(all);
    fill(place, panel("Events", { id: "events", note: "what services were told of accounts" }, list.element));
  }, () => {});
  return { element: place, end: () => running.abort() };
}
