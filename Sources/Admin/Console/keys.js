/// The page Keys: the gateway's own signing keys, those of outside issuers, API keys, and certificates.

import { ask, get } from "./api.js";
import { apiKeys } from "./api-keys.js";
import { certificates } from "./certificates.js";
import { confirm } from "./dialog.js";
import { badge, below, empty, faultNotice, fill, h, loading, none, pageHead, panel, small, toast } from "./dom.js";
import { count, when } from "./format.js";
import { table } from "./table.js";

/// In the order in which they are shown.
const states = { current: "good", active: "good", next: "accent", retired: "neutral" };
const order = Object.keys(states);
function ownTable() {
  return table({
    caption: "Own signing keys", key: ({ kid }) => kid,
    empty: empty("No own keys", "The gateway makes them at its first start with a contract."),
    columns: [
      { head: "Key ID", isHead: true, kind: "grow", cell: ({ kid }) => kid ? h("code", {}, kid) : "shared secret" },
      { head: "State", cell: ({ state }) => badge(state, states[state] ?? "neutral") },
      { head: "Algorithm", cell: ({ alg }) => alg },
      { head: "Made", cell: ({ created_at: at }) => when(at) },
      {
        head: "Next rotation",
        cell: ({ state, rotates_at: at }) => at ? when(at) : state === "current" ? h("span", { class: "quiet" }, "by hand") : none(),
      },
      { head: "Verifies until", cell: ({ ends_at: at }) => at ? when(at) : none() },
    ],
  });
}

function issuerTable() {
  return table({
    caption: "Key sets of outside issuers", key: ({ name }) => name,
    empty: empty("No outside issuers", "A TOLLGATE_TRUST_… line names one; its key set and fetches appear here."),
    columns: [
      { head: "Name", isHead: true, cell: ({ name }) => name },
      {
        head: "Issuer", kind: "grow",
        cell: ({ issuer, jwks_url: url, file }) => [issuer ? h("code", {}, issuer) : none(), (url || file) && below(url ?? file)],
      },
      { head: "Keys", kind: "right", cell: ({ keys }) => keys > 0 ? count(keys) : h("span", { class: "bad-text" }, "0") },
      { head: "Fetched", cell: ({ jwks_url: url, fetched_at: at }) => at ? when(at) : url ? h("span", { class: "bad-text" }, "never") : none() },
      { head: "Next fetch", cell: ({ next_fetch_at: at }) => at ? when(at) : none() },
      {
        head: "Fetches",
        cell: ({ jwks_url: url, fetches, failures }) =>
          url && fetches !== undefined ? [count(fetches), failures > 0 && small(`, ${count(failures)} failed`)] : none(),
      },
      { head: "Last fault", cell: ({ last_fault: fault }) => fault ? h("span", { class: "bad-text" }, fault) : none() },
    ],
  });
}

export const page = {
  mount(root) {
    const own = ownTable();
    const issuers = issuerTable();
    const stop = new AbortController();
    const parts = [apiKeys(stop.signal), certificates(stop.signal)];

    async function load() {
      for (const part of parts) part.load();
      try {
        const answer = await get(["keys"], {}, stop.signal);
        own.show((answer.own ?? []).toSorted((one, other) => order.indexOf(one.state) - order.indexOf(other.state)));
        issuers.show(answer.issuers ?? []);
      } catch (error) {
        if (error.name === "AbortError") return;
        own.instead(faultNotice(error, load));
        issuers.instead(h("p", { class: "quiet" }, "Not loaded."));
      }
    }

    async function rotate() {
      const isDone = await confirm({
        title: "Rotate the signing keys?", button: "Rotate", isDangerous: false,
        text: "The next key signs from now on, and a new next key is made. The current one verifies until the last token that it signed "
          + "has expired, so no one is signed out.",
        async action() {
          await ask("POST", ["keys", "rotate"]);
          toast("The keys are rotated.");
        },
      });
      if (isDone) await load();
    }

    const rotateButton = h("button", { type: "button", class: "primary", id: "rotate", onclick: rotate }, "Rotate…");
    fill(root, pageHead("Keys", "What tokens are signed and verified with.", h("button", { type: "button", onclick: load }, "Refresh")),
      panel("Own keys", { id: "own", tools: [rotateButton] }, own.element),
      panel("Outside issuers", { id: "issuers" }, issuers.element), parts.map(({ element }) => element));
    own.instead(loading());
    issuers.instead(loading());
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, 15_000);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  },
};
