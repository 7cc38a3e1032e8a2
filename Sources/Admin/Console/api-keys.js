/// The API keys of partners and scripts, a panel of the page Keys. It stays away where the gateway has none of its operations.

import { ask, getIfKnown } from "./api.js";
import { Complaint, confirm, open } from "./dialog.js";
import { badge, below, empty, faultNotice, field, h, loading, none, panel, toast, verbatim } from "./dom.js";
import { when } from "./format.js";
import { table } from "./table.js";

const isOver = ({ until }) => until && Date.parse(until) <= Date.now();

/// Shows the text of a key that was just made: the gateway keeps only its digest.
function showOnce({ name, key }) {
  open(`The key of ${name}`, (close) => h("div", { class: "stack" },
    h("p", {}, "Hand it over now: it is shown this once, and cannot be read again."),
    h("p", {}, h("code", { class: "wrap", id: "new-key" }, key)),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: close }, "Done"))));
}

async function create() {
  const name = h("input", { id: "key-name", type: "text", maxlength: 64, required: true, ...verbatim });
  const tier = h("input", { id: "key-tier", type: "text", required: true, ...verbatim });
  const routes = h("input", { id: "key-routes", type: "text", ...verbatim });
  const until = h("input", { id: "key-until", type: "datetime-local" });
  const limit = h("input", { id: "key-limit", type: "text", placeholder: "100/m", ...verbatim });
  let made = null;
  await confirm({
    title: "Make an API key", isDangerous: false, button: "Make the key",
    text: "Its holder has this tier on the routes that take keys.",
    fields: [
      field("key-name", "Name", name, "Of the partner or script."), field("key-tier", "Tier", tier),
      field("key-routes", "Routes", routes, "With commas between them. Empty: all that take keys."),
      field("key-until", "Until", until, "In this browser's time zone. Empty: without an end."),
      field("key-limit", "Limit", limit, "Empty: only the limits of the routes."),
    ],
    async action() {
      if (name.value.trim() === "") throw new Complaint(name, "Enter a name.");
      if (tier.value.trim() === "") throw new Complaint(tier, "Enter a tier.");
      if (until.validity.badInput) throw new Complaint(until, "This is no date with a time.");
      const body = { name: name.value.trim(), tier: tier.value.trim() };
      const names = routes.value.split(/[\s,]+/).filter(Boolean);
      if (names.length > 0) body.routes = names;
      if (until.value) body.until = new Date(until.value).toISOString();
      if (limit.value.trim()) body.limit = limit.value.trim();
      made = await ask("POST", ["keys", "api"], { body });
    },
  });
  if (made) showOnce(made);
  return made !== null;
}

function revoke({ id, name }) {
  return confirm({
    title: "Revoke this key?", button: "Revoke the key",
    text: `Every gateway refuses the key of ${name} within a second, for good.`,
    async action() {
      await ask("DELETE", ["keys", "api", id]);
      toast(`The key of ${name} is revoked.`);
    },
  });
}

function keyTable(load) {
  return table({
    caption: "API keys", key: ({ id }) => id,
    empty: empty("No API keys", "They are for partners and scripts, on routes with auth=key."),
    columns: [
      { head: "Name", isHead: true, kind: "grow", cell: ({ name, prefix }) => [name, below(h("code", {}, `${prefix}…`))] },
      { head: "Tier", cell: ({ tier }) => badge(tier, "accent") },
      { head: "Routes", cell: ({ routes }) => routes?.length > 0 ? routes.join(", ") : "all" },
      { head: "Limit", cell: ({ limit }) => limit ? h("code", {}, limit) : none() },
      { head: "Made", cell: ({ created_at: at }) => when(at) },
      { head: "Last used", cell: ({ last_used_at: at }) => at ? when(at) : none() },
      {
        head: "Until",
        cell: (key) => key.revoked_at ? [badge("revoked", "bad"), " ", when(key.revoked_at)]
          : key.until ? [isOver(key) && badge("over", "warn"), " ", when(key.until)] : none(),
      },
      {
        head: "Revoke", hideHead: true, kind: "right",
        cell: (key) => !key.revoked_at && h("button", {
          type: "button", class: "plain", "aria-label": `Revoke the key of ${key.name}`, async onclick() { if (await revoke(key)) load(); },
        }, "Revoke…"),
      },
    ],
  });
}

/// The panel, and how it is loaded.
export function apiKeys(signal) {
  const list = keyTable(load);
  const make = h("button", { type: "button", id: "make-key", async onclick() { if (await create()) load(); } }, "Make a key…");
  const element = panel("API keys", { id: "api-keys", tools: [make] }, list.element);
  element.hidden = true;
  list.instead(loading());

  async function load() {
    try {
      const answer = await getIfKnown(["keys", "api"], signal);
      element.hidden = answer === null;
      list.show(answer?.keys ?? []);
    } catch (error) {
      if (error.name === "AbortError") return;
      element.hidden = false;
      list.instead(faultNotice(error, load));
    }
  }

  return { element, load };
}
