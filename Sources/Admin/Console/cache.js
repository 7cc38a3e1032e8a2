/// The page Cache: the responses that routes with cache= keep, and their removal.

import { ask, get } from "./api.js";
import { Complaint, confirm } from "./dialog.js";
import { badge, below, empty, facts, faultNotice, field, fill, h, loading, none, pageHead, panel, toast, verbatim } from "./dom.js";
import { bytes, count, counted, percent } from "./format.js";
import { table } from "./table.js";

const plural = (number) => `${count(number)} ${number === 1 ? "response" : "responses"}`;

/// Removes kept responses at all gateways, and says how many this one had.
async function purge(selector) {
  const { entries } = await ask("POST", ["cache", "purge"], { body: selector });
  toast(entries === 0 ? "This gateway kept no such response." : `${plural(entries)} removed.`);
}

function purgeRoute(route) {
  return confirm({
    title: "Remove the responses of this route?", button: "Remove the responses",
    text: `All gateways of the database remove what they keep for ${route} within a second. The next requests go to the upstream.`,
    action: () => purge({ route }),
  });
}

/// Asks which responses are meant: those that all filled fields hold for, or all.
function purgeSome(routes) {
  const route = h("select", { id: "purge-route" }, h("option", { value: "" }, "any route"), routes.map((name) => h("option", {}, name)));
  const path = h("input", { id: "purge-path", type: "text", placeholder: "/api/v1/passages/", ...verbatim });
  const tag = h("input", { id: "purge-tag", type: "text", ...verbatim });
  const all = h("input", { id: "purge-all", type: "checkbox" });
  return confirm({
    title: "Remove responses", button: "Remove the responses",
    text: "All gateways of the database remove those for which all that is filled in holds, within a second.",
    fields: [
      field("purge-route", "Route", route), field("purge-path", "Path", path, "Its beginning."),
      field("purge-tag", "Tag", tag, "A word of the upstream's Surrogate-Key or Cache-Tag."),
      h("p", {}, all, " ", h("label", { for: "purge-all" }, "All responses of all routes")),
    ],
    async action() {
      const entries = [["route", route.value], ["path", path.value.trim()], ["tag", tag.value.trim()]].filter(([, text]) => text !== "");
      if (all.checked && entries.length > 0) throw new Complaint(all, "Choose all responses, or say which.");
      if (!all.checked && entries.length === 0) throw new Complaint(path, "Say which responses, or choose all.");
      await purge(all.checked ? { all: true } : Object.fromEntries(entries));
    },
  });
}

function routeTable(load) {
  return table({
    caption: "Routes that keep responses", key: ({ name }) => name,
    empty: empty("No route keeps responses", "cache=60s on a route's line keeps its responses to GET for a minute."),
    columns: [
      { head: "Route", isHead: true, cell: ({ name, path }) => [name, below(h("code", {}, path))] },
      { head: "Fresh for", cell: ({ cache, cache_stale: stale }) => [cache, stale && below(`stale ${stale} longer`)] },
      { head: "Shared by", cell: ({ cache_by: by }) => badge(by === "public" ? "all callers" : by === "tier" ? "a tier" : "one user") },
      { head: "Responses", kind: "right", cell: ({ entries }) => counted(entries) },
      { head: "Memory", kind: "right", cell: (route) => route.entries ? [bytes(route.bytes), below(percent(route.bytes, route.total))] : none() },
      {
        head: "Remove", hideHead: true, kind: "right",
        cell: ({ name }) => h("button", {
          type: "button", class: "plain", "aria-label": `Remove the responses of ${name}`,
          async onclick() { if (await purgeRoute(name)) load(); },
        }, "Remove…"),
      },
    ],
  });
}

export const page = {
  mount(root) {
    const routes = routeTable(load);
    const sums = h("div", {}, loading());
    const stop = new AbortController();
    let names = [];

    async function load() {
      try {
        const [kept, known] = await Promise.all([get(["cache"], {}, stop.signal), get(["routes"], {}, stop.signal)]);
        const figures = new Map(kept.routes.map((route) => [route.route, route]));
        const cached = known.routes.filter(({ cache }) => cache);
        names = cached.map(({ name }) => name);
        routes.show(cached.map((route) => ({ ...route, entries: 0, bytes: 0, ...figures.get(route.name), total: kept.bytes })));
        fill(sums, facts([["Responses", count(kept.entries)], ["Memory", bytes(kept.bytes)]]));
      } catch (error) {
        if (error.name === "AbortError") return;
        routes.instead(faultNotice(error, load));
        fill(sums, h("p", { class: "quiet" }, "Not loaded."));
      }
    }

    const remove = h("button", {
      type: "button", id: "purge", class: "danger", async onclick() { if (await purgeSome(names)) load(); },
    }, "Remove…");
    fill(root, pageHead("Cache", "The responses that this gateway keeps in memory.", remove),
      panel("In all", { id: "cache-sums" }, sums), panel("Routes", { id: "cache-routes" }, routes.element));
    routes.instead(loading());
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, 5_000);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  },
};
