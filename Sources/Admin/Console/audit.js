/// The audit log, of all accounts or of one, a page at a time.

import { get } from "./api.js";
import { badge, below, empty, h, none, userName } from "./dom.js";
import { label, when } from "./format.js";
import { pages, size, table } from "./table.js";

const alarming = new Set(["refresh-reuse", "account-deleted", "account-taken"]);

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
