/// The page Purchases: what was bought, by state, and what the stores have notified.

import { ask, get } from "./api.js";
import { confirm } from "./dialog.js";
import { accountLink, badge, below, empty, fill, h, none, pageHead, panel, toast } from "./dom.js";
import { label, when } from "./format.js";
import { pages, size, table } from "./table.js";

const states = ["active", "grace", "retry", "paused", "expired", "refunded", "revoked", "superseded"];
const sources = ["apple", "google", "stripe", "revenuecat"];
const verdicts = ["applied", "kept", "unknown-product", "unknown-account"];
const stateKind = (state) => state === "active" ? "good" : state === "grace" || state === "retry" ? "warn" : "neutral";
const verdictKind = (verdict) => verdict === "applied" ? "good" : verdict === "kept" ? "neutral" : "warn";

/// A store, and that no money was paid in its sandbox.
const store = ({ source, environment }) => [source, environment === "sandbox" && [" ", badge("sandbox", "warn")]];

function action(text, name, question, run, done) {
  return h("button", {
    type: "button", class: "plain", "aria-label": `${text}: ${name}`,
    async onclick() { if (await confirm({ isDangerous: false, button: text, ...question, action: run })) done(); },
  }, text);
}

const sync = (purchase, done) => action("Ask the store", purchase.original_id, {
  title: "Ask the store?", text: "The store is asked for the newest state of this purchase, and its answer counts at every gateway within a second.",
}, async () => {
  const { state } = await ask("POST", ["purchases", purchase.id, "sync"]);
  toast(`The purchase is ${state}.`);
}, done);

const replay = (event, done) => action("Apply again", `${event.type} of ${event.source}`, {
  title: "Apply this event again?", text: "What the store said later stays. Products that have a line now give their tier.",
}, async () => {
  const { purchases } = await ask("POST", ["store-events", event.id, "replay"]);
  toast(purchases.length > 0 ? `The purchase is ${purchases[0].state}.` : "The event is about no purchase.");
}, done);

/// The purchases of an account, or of all in a state. `changed` is called in place of a new reading when one has changed.
export function purchaseList({ account, state = () => undefined, changed }) {
  const list = table({
    caption: "Purchases", key: ({ id }) => id,
    empty: empty("No purchase", "A purchase appears when an app claims it, or when a store notifies it."),
    columns: [
      { head: "Product", isHead: true, cell: ({ product, store_product: own }) => [product ?? badge("no product line", "warn"), below(h("code", {}, own))] },
      { head: "Store", cell: (purchase) => [store(purchase), below(h("code", {}, purchase.original_id))] },
      { head: "State", cell: ({ state: name }) => badge(name, stateKind(name)) },
      { head: "Tier", cell: ({ tier }) => tier ? badge(tier, "accent") : none() },
      { head: "Until", cell: ({ until, renews }) => [until ? when(until) : "without an end", renews && below("renews")] },
      ...(account ? [] : [{ head: "Account", cell: ({ account: id }) => id ? accountLink(id, h("code", {}, id)) : "none yet" }]),
      { head: "Action", hideHead: true, kind: "right", cell: (purchase) => sync(purchase, () => (changed ?? whole.load)()) },
    ],
  });
  const whole = pages(list, async (after, signal) => (await get(["purchases"], { account, state: state(), limit: size, after }, signal)).purchases);
  return whole;
}

function eventList({ source, verdict }) {
  const list = table({
    caption: "Store events", key: ({ id }) => id,
    empty: empty("No store event", "A notification of a store appears here once it was verified and kept."),
    columns: [
      { head: "Received", cell: ({ received_at: at }) => when(at) },
      { head: "Type", isHead: true, kind: "breaks", cell: ({ type, event }) => [type, below(h("code", {}, event))] },
      { head: "Store", cell: store },
      { head: "Store's time", cell: ({ at }) => when(at) },
      { head: "Verdict", cell: ({ verdict: name }) => badge(label(name), verdictKind(name)) },
      { head: "Action", hideHead: true, kind: "right", cell: (event) => replay(event, () => whole.load()) },
    ],
  });
  const whole = pages(list, async (before, signal) =>
    (await get(["store-events"], { source: source(), verdict: verdict(), limit: size, before }, signal)).events);
  return whole;
}

/// A choice of one of these words, or of all.
function choice(name, words, changed) {
  const field = h("select", { "aria-label": name, onchange: changed }, h("option", { value: "" }, `${name}: all`),
    words.map((word) => h("option", { value: word }, label(word))));
  return { field, value: () => field.value || undefined };
}

export const page = {
  mount(root) {
    const state = choice("State", states, () => purchases.load());
    const source = choice("Store", sources, () => events.load());
    const verdict = choice("Verdict", verdicts, () => events.load());
    const purchases = purchaseList({ state: state.value });
    const events = eventList({ source: source.value, verdict: verdict.value });
    const refresh = () => { purchases.load(); events.load(); };
    fill(root, pageHead("Purchases", "What was bought, and what the stores have said of it.", h("button", { type: "button", onclick: refresh }, "Refresh")),
      panel("Purchases", { id: "purchases", tools: [state.field] }, purchases.element),
      panel("Store events", { id: "store-events", tools: [source.field, verdict.field], note: "newest first" }, events.element));
    return () => { purchases.end(); events.end(); };
  },
};
