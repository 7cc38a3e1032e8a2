/// The page People: a search over the accounts, one account, and the audit log of all.

import { get } from "./api.js";
import { nameOf, showAccount } from "./account.js";
import { auditLog, subscribers } from "./audit.js";
import { accountLink, announce, badge, empty, faultNotice, fill, h, loading, none, pageHead, panel, small, verbatim } from "./dom.js";
import { count, when } from "./format.js";
import { table } from "./table.js";

const most = 50;
let lastSearch = "";

function accountTable() {
  return table({
    caption: "Accounts", key: ({ id }) => id,
    empty: empty("No account found", "A part of the email, name or phone finds it, or its whole id. NAME:SUBJECT opens that of an outside issuer."),
    columns: [
      { head: "Account", isHead: true, kind: "breaks", cell: (user) => accountLink(user.id, nameOf(user)) },
      {
        head: "Name",
        cell: ({ given_name: given, family_name: family, username }) => [given, family].filter(Boolean).join(" ") || username || none(),
      },
      { head: "Tier", cell: ({ tier, tier_until: until }) => [badge(tier, "accent"), until && small(" until ", when(until))] },
      { head: "Opened", cell: ({ created_at: at, opened_by: by }) => [when(at), small(` by ${by}`)] },
      { head: "ID", kind: "right", cell: ({ id }) => h("code", {}, id) },
    ],
  });
}

function tabs(isAudit) {
  const tab = (address, text, isCurrent) => h("a", { href: address, "aria-current": isCurrent ? "page" : null }, text);
  return h("nav", { class: "choice", "aria-label": "Parts of People" },
    tab("#/people", "Accounts", !isAudit), tab("#/people/audit", "Audit log", isAudit));
}

function showSearch(root) {
  const list = accountTable();
  const note = small();
  let running = new AbortController();
  let typing;

  const field = h("input", {
    type: "search", id: "people-search", value: lastSearch, placeholder: "Email, name, phone or id", ...verbatim,
    oninput() {
      clearTimeout(typing);
      typing = setTimeout(load, 250);
    },
  });
  const form = h("form", {
    class: "search", role: "search", "aria-label": "Search the accounts",
    onsubmit(event) {
      event.preventDefault();
      clearTimeout(typing);
      load();
    },
  }, h("label", { class: "unseen", for: "people-search" }, "Search the accounts"), field,
  h("button", { type: "submit", class: "primary" }, "Search"));

  async function load() {
    const text = field.value.trim();
    lastSearch = text;
    running.abort();
    running = new AbortController();
    try {
      const { users, complete } = await get(["users"], text === "" ? { limit: most } : { search: text }, running.signal);
      list.show(users);
      note.textContent = text === "" ? "the oldest accounts" : complete === false
        ? `the first ${count(users.length)}; a longer text finds fewer` : `${count(users.length)} found`;
      if (text !== "") announce(note.textContent);
      if (users.length === 0 && /^[a-z0-9_]+:./i.test(text)) {
        list.instead(h("p", {}, "A user of an outside issuer? ", accountLink(text, `Open ${text}`)));
      }
    } catch (error) {
      if (error.name !== "AbortError") list.instead(faultNotice(error, load));
    }
  }

  fill(root, pageHead("People", "Accounts, their sessions and tiers, and what happened to them.", tabs(false)),
    panel("Accounts", { id: "accounts", tools: [note] }, form, list.element));
  list.instead(loading());
  load();
  return () => {
    running.abort();
    clearTimeout(typing);
  };
}

function showAudit(root) {
  const log = auditLog({});
  const services = subscribers();
  fill(root, pageHead("People", "Accounts, their sessions and tiers, and what happened to them.", tabs(true)), services.element,
    panel("Audit log", { id: "audit", note: "newest first" }, log.element));
  return () => { services.end(); log.end(); };
}

export const page = {
  mount(root, rest) {
    if (rest[0] === "audit") return showAudit(root);
    return rest.length > 0 ? showAccount(root, rest[0]) : showSearch(root);
  },
};
