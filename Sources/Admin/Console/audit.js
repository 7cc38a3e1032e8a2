/// The audit log, of all accounts or of one, a page at a time.

import { get } from "./api.js";
import { badge, below, empty, faultNotice, h, loading, none, userName } from "./dom.js";
import { label, when } from "./format.js";
import { table } from "./table.js";

const size = 50;
const alarming = new Set(["refresh-reuse", "account-deleted", "account-taken"]);

/// The detail of an event, and the session that it is about.
function details({ detail, session }) {
  return detail || session ? [detail, session && [detail && ", ", h("span", { class: "quiet" }, "session "), h("code", {}, session)]] : none();
}

/// The log; `user` restricts it to one account. `load()` reads it anew.
export function auditLog({ user }) {
  const stop = new AbortController();
  const more = h("button", { type: "button", hidden: true, onclick: () => loadMore() }, "Show older ones");
  let events = [];

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

  async function read(before) {
    const answer = await get(["audit"], { user, limit: size, before }, stop.signal);
    more.hidden = answer.events.length < size;
    return answer.events;
  }

  async function load() {
    try {
      events = await read();
      list.show(events);
    } catch (error) {
      if (error.name !== "AbortError") list.instead(faultNotice(error, load));
    }
  }

  async function loadMore() {
    more.disabled = true;
    try {
      events = [...events, ...await read(events.at(-1)?.id)];
      list.show(events);
    } catch (error) {
      if (error.name !== "AbortError") list.instead(faultNotice(error, load));
    } finally {
      more.disabled = false;
    }
  }

  list.instead(loading());
  load();
  return { element: h("div", { class: "stack" }, list.element, h("div", { class: "buttons" }, more)), load, end: () => stop.abort() };
}
