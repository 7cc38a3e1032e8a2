/// The page Switches: what is changed while gateways run, at all of them: maintenance and the shares of splits; and which apps there are.

import { ask, get, getIfKnown } from "./api.js";
import { Complaint, confirm } from "./dialog.js";
import { badge, below, empty, faultNotice, field, fill, h, loading, none, pageHead, panel, small, toast, verbatim } from "./dom.js";
import { counted, when } from "./format.js";
import { table } from "./table.js";

const button = (name, text, action) => h("button", { type: "button", class: "plain", "aria-label": name, onclick: action }, text);

// MARK: splits

const setters = { configuration: ["as its line says", "neutral"], operator: ["set by an operator", "accent"], guard: ["taken back by the guard", "bad"] };

function setShare({ route, upstream, percent }) {
  const share = h("input", { id: "split-percent", type: "number", min: 0, max: 100, step: 1, required: true, value: percent });
  return confirm({
    title: "Set the share", isDangerous: false, button: "Set the share",
    text: `So many percent of the users of ${route} go to ${upstream}, at all gateways of the database within a second, until it is set anew or reset.`,
    fields: [field("split-percent", "Percent", share)],
    async action() {
      const wanted = Number(share.value);
      if (share.value === "" || !Number.isInteger(wanted) || wanted < 0 || wanted > 100) {
        throw new Complaint(share, "The share is a whole number from 0 to 100.");
      }
      await ask("PUT", ["routes", route, "split"], { body: { percent: wanted } });
      toast(`${wanted}% of ${route} go to ${upstream}.`);
    },
  });
}

function resetShare({ route, configured_percent: percent }) {
  return confirm({
    title: "Reset the share?", isDangerous: false, button: "Reset the share",
    text: `The share of ${route} is then that of its line: ${percent}%.`,
    async action() {
      await ask("DELETE", ["routes", route, "split"]);
      toast(`The share of ${route} is ${percent}%, as its line says.`);
    },
  });
}

function splitTable(load) {
  return table({
    caption: "Routes with a split", key: ({ route }) => route,
    empty: empty("No route has a split", "split=5%:UPSTREAM on a route's line sends a share of its users to another upstream."),
    columns: [
      { head: "Route", isHead: true, cell: ({ route, own }) => [route, own && below(`to ${own}`)] },
      { head: "Goes to", cell: ({ upstream }) => upstream },
      { head: "Share", cell: ({ percent, set_by: by }) => [h("span", { class: "strong" }, `${percent}%`), " ", badge(...setters[by] ?? [by])] },
      { head: "Line", cell: ({ configured_percent: percent, when }) => [`${percent}%`, when?.length > 0 && below(when.join(", "))] },
      { head: "Guard", cell: ({ guard }) => guard ? badge(guard) : none() },
      {
        head: "Actions", hideHead: true, kind: "right",
        cell: (split) => [
          button(`Set the share of ${split.route}`, "Set…", async () => { if (await setShare(split)) load(); }),
          split.set_by !== "configuration"
            && button(`Reset the share of ${split.route}`, "Reset…", async () => { if (await resetShare(split)) load(); }),
        ],
      },
    ],
  });
}

/// The splits of routes that have one, with what their lines say.
async function splits(routes, signal) {
  return Promise.all(routes.filter(({ split }) => split).map(async ({ name, upstream, split_guard: guard, when }) =>
    ({ ...await get(["routes", name, "split"], {}, signal), own: upstream, guard, when })));
}

// MARK: maintenance

const scopeNames = { all: "All routes", contracts: "Sign-in and refresh" };

function close(routes) {
  const scope = h("select", { id: "maintenance-scope" }, Object.entries(scopeNames).map(([value, text]) => h("option", { value }, text)),
    routes.filter(({ name }) => !scopeNames[name]).map(({ name }) => h("option", { value: name }, `The route ${name}`)));
  const until = h("input", { id: "maintenance-until", type: "datetime-local" });
  const message = h("input", { id: "maintenance-message", type: "text" });
  const allow = h("input", { id: "maintenance-allow", type: "text", placeholder: "192.0.2.0/24", ...verbatim });
  return confirm({
    title: "Close for maintenance", button: "Close for maintenance",
    text: "Requests get 503 at all gateways of the database within a second. Internal callers pass.",
    fields: [
      field("maintenance-scope", "What", scope, "All routes leave sign-in and refresh open, so that no app signs its users out."),
      field("maintenance-until", "Until", until, "In this browser's time zone. Empty: until it is opened by hand."),
      field("maintenance-message", "Message for users", message, "Empty: a sentence of the gateway's."),
      field("maintenance-allow", "Networks that pass", allow, "With blanks between them."),
    ],
    async action() {
      if (until.validity.badInput) throw new Complaint(until, "This is no date with a time.");
      const body = {};
      if (until.value) body.until = new Date(until.value).toISOString();
      if (message.value.trim()) body.message = message.value.trim();
      const networks = allow.value.split(/[\s,]+/).filter(Boolean);
      if (networks.length > 0) body.allow = networks;
      await ask("PUT", ["maintenance", scope.value], { body });
      toast(`${scopeNames[scope.value] ?? scope.value}: closed for maintenance.`);
    },
  });
}

function reopen({ scope }) {
  return confirm({
    title: "Open it again?", isDangerous: false, button: "Open",
    text: `${scopeNames[scope] ?? `The route ${scope}`}: requests pass again at all gateways within a second.`,
    async action() {
      await ask("DELETE", ["maintenance", scope]);
      toast(`${scopeNames[scope] ?? scope}: open again.`);
    },
  });
}

function maintenanceTable(load) {
  return table({
    caption: "Closed for maintenance", key: ({ scope }) => scope,
    empty: empty("Nothing is closed", "A route, all routes, or sign-in and refresh can be closed for a time."),
    columns: [
      { head: "What", isHead: true, cell: ({ scope }) => scopeNames[scope] ?? scope },
      { head: "Since", cell: ({ since }) => since ? when(since) : none() },
      { head: "Until", cell: ({ until }) => until ? when(until) : small("opened by hand") },
      { head: "Message", kind: "grow", cell: ({ message }) => message ?? none() },
      { head: "Passes", cell: ({ allow }) => allow?.length > 0 ? allow.join(", ") : none() },
      {
        head: "Actions", hideHead: true, kind: "right",
        cell: (item) => button(`Open ${scopeNames[item.scope] ?? item.scope} again`, "Open…", async () => { if (await reopen(item)) load(); }),
      },
    ],
  });
}

// MARK: app versions

/// The words of the census in place of a version.
const versionWords = { none: "without a version", other: "all further ones" };

/// Versions of each gate by their numbers, the highest first: 4.10 is above 4.9. Words come last.
const byVersion = (one, other) => one.gate.localeCompare(other.gate) || (one.version in versionWords) - (other.version in versionWords)
  || other.version.localeCompare(one.version, "en", { numeric: true });

function appTable() {
  return table({
    caption: "App versions of the last week", key: ({ gate, version }) => `${gate} ${version}`,
    empty: empty("No app was seen", "Requests of routes with app=required or app=optional are counted by the version of their app."),
    columns: [
      { head: "Gate", isHead: true, cell: ({ gate }) => gate === "-" ? small("none for the platform") : gate },
      { head: "Version", cell: ({ version }) => versionWords[version] ? small(versionWords[version]) : h("code", {}, version) },
      { head: "Requests", kind: "right", cell: ({ requests }) => counted(requests) },
      { head: "Users, about", kind: "right", cell: ({ users }) => counted(users) },
    ],
  });
}

// MARK: the page

export const page = {
  mount(root) {
    const shares = splitTable(load);
    const closed = maintenanceTable(load);
    const stop = new AbortController();
    let routes = [];
    const closing = h("button", { type: "button", id: "close", async onclick() { if (await close(routes)) load(); } }, "Close for maintenance…");
    const maintenance = panel("Maintenance", { id: "maintenance", tools: [closing] }, closed.element);
    const apps = appTable();
    const versions = panel("App versions", { id: "apps", note: "of the last week: whom a new floor would lock out" }, apps.element);
    maintenance.hidden = versions.hidden = true;

    async function load() {
      try {
        const [known, items, census] = await Promise.all([
          get(["routes"], {}, stop.signal), getIfKnown(["maintenance"], stop.signal), getIfKnown(["apps"], stop.signal),
        ]);
        routes = known.routes;
        maintenance.hidden = items === null;
        closed.show(items?.maintenance ?? []);
        versions.hidden = census === null;
        apps.show((census?.apps ?? []).toSorted(byVersion));
        shares.show(await splits(routes, stop.signal));
      } catch (error) {
        if (error.name !== "AbortError") shares.instead(faultNotice(error, load));
      }
    }

    fill(root, pageHead("Switches", "What is changed while gateways run, at all gateways of the database."),
      maintenance, panel("Splits", { id: "splits" }, shares.element), versions);
    shares.instead(loading());
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, 5_000);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  },
};
