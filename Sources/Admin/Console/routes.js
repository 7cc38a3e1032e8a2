/// The page Routes: the routes as the gateway understands them, their counts, and a tester.

import { ask, get } from "./api.js";
import { announce, badge, below, empty, faultNotice, field, fill, h, loading, none, pageHead, panel, small, verbatim } from "./dom.js";
import { counted, count, latency, percent } from "./format.js";
import { table } from "./table.js";
import { verdict, walk } from "./walk.js";

const authKinds = { none: "open" };
const hidden = new Set(["name", "methods", "path", "upstream", "auth", "counts", "tier", "limit", "mount"]);

function ruleValue(json) {
  if (json === true) return "on";
  if (Array.isArray(json)) return json.map(ruleValue).join(",");
  return typeof json === "object" ? JSON.stringify(json) : json;
}

/// The rules of a route beyond its columns, as its line would say them.
function rules(route) {
  return Object.entries(route).filter(([name, json]) => !hidden.has(name) && json !== null && json !== false && json.length !== 0)
    .map(([name, json]) => `${name.replaceAll("_", "-")}=${ruleValue(json)}`);
}

const has = (list) => list !== undefined && list.length > 0;

/// What a route asks of every caller. It is open only if it asks for nothing.
function demands(route) {
  const others = [
    new Date(route.sunset) <= Date.now() && badge("retired", "bad"),
    has(route.allow_from) && badge("some addresses"), has(route.deny_from) && badge("not all addresses"),
    route.app && badge(`app ${route.app}`), has(route.scope) && badge(`scope ${route.scope.join(", ")}`),
  ].filter(Boolean);
  const auth = route.auth === "none" ? others.length === 0 && "open" : `auth ${route.auth}`;
  return [auth && badge(auth, authKinds[route.auth]), ...others];
}

const countColumns = [
  { head: "Requests", kind: "right", cell: ({ counts }) => counted(counts.requests) },
  {
    head: "Refused", kind: "right",
    cell: ({ counts }) => counts.refused ? [counted(counts.refused), below(percent(counts.refused, counts.requests))] : "0",
  },
  {
    head: "5xx", kind: "right",
    cell: ({ counts }) => counts["5xx"] ? h("span", { class: "bad-text" }, counted(counts["5xx"])) : "0",
  },
  {
    head: "Latency", kind: "right",
    cell: ({ counts }) => counts.p99 === null || counts.p99 === undefined ? none()
      : [latency(counts.p50), below(`p99 ${latency(counts.p99)}`)],
  },
];

const pathCell = ({ methods, path }) => [h("code", {}, path), below(methods?.length ? methods.join(" ") : "any method")];

function routeTable() {
  return table({
    caption: "Routes in the order of their match", key: ({ name }) => name,
    empty: empty("No routes", "A TOLLGATE_ROUTE_… line makes one; `tollgate help routes` lists its keys."),
    columns: [
      { head: "Route", isHead: true, cell: ({ name, upstream }) => [name, upstream && below(`to ${upstream}`)] },
      { head: "Path", cell: pathCell },
      {
        head: "Asks for", kind: "asks",
        cell: (route) => [
          h("div", { class: "badges" }, demands(route),
            route.tier && badge(`tier ${route.tier}`, "accent"), route.limit && badge(`limit ${route.limit.replaceAll(",", ", ")}`),
            route.filter?.length > 0 && badge(`filter ${route.filter.join(", ")}`)),
          h("details", { class: "small" }, h("summary", {}, "All rules", h("span", { class: "unseen" }, ` of ${route.name}`)),
            h("ul", { class: "rules" }, rules(route).map((rule) => h("li", {}, h("code", {}, rule))))),
        ],
      },
      ...countColumns,
    ],
  });
}

/// Endpoints have counts as routes do, if the gateway tells them.
function endpointTable(hasCounts) {
  return table({
    caption: "Endpoints that the gateway answers itself", key: ({ name, path }) => `${name} ${path}`,
    empty: empty("No endpoints", "TOLLGATE_CONTRACTS mounts them."),
    columns: [
      { head: "Endpoint", isHead: true, cell: ({ name }) => name },
      { head: "Path", cell: pathCell },
      { head: "Contract", cell: ({ mount }) => mount },
      { head: "Asks for", cell: ({ auth }) => badge(auth === "none" ? "open" : `auth ${auth}`, authKinds[auth]) },
      ...(hasCounts ? countColumns : []),
    ],
  });
}

// MARK: the tester

/// Lines of `Name: value`; throws for one that is none.
function headers(text) {
  const found = {};
  for (const line of text.split("\n").map((line) => line.trim()).filter((line) => line !== "")) {
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error(`“${line}” is no header line, write it as Name: value.`);
    found[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return found;
}

function tester() {
  const outcome = h("div", { id: "walk", class: "stack", role: "status" },
    empty("No request tested yet", "The walk of the request through the gate appears here. It is decided, not sent, and charges no limit."));
  const method = h("select", { name: "method" }, ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"].map((name) => h("option", {}, name)));
  const url = h("input", { name: "url", type: "text", placeholder: "/path or https://host/path", required: true, ...verbatim });
  const token = h("textarea", { name: "token", rows: 3, ...verbatim, placeholder: "eyJ…" });
  const from = h("input", { name: "from", type: "text", placeholder: "203.0.113.7", ...verbatim });
  const lines = h("textarea", { name: "headers", rows: 2, ...verbatim, placeholder: "Origin: https://app.example.org" });

  async function submit(event) {
    event.preventDefault();
    if (url.value.trim() === "") {
      fill(outcome, h("p", { class: "wrong" }, "Enter a path or a URL."));
      return url.focus();
    }
    let body;
    try {
      body = { method: method.value, url: url.value.trim() };
      const bearer = token.value.trim().replace(/^Bearer\s+/i, "");
      if (bearer) body.token = bearer;
      if (from.value.trim()) body.from = from.value.trim();
      const more = headers(lines.value);
      if (Object.keys(more).length > 0) body.headers = more;
    } catch (error) {
      fill(outcome, h("p", { class: "wrong" }, error.message));
      return lines.focus();
    }
    fill(outcome, loading("Asking…"));
    try {
      const answer = await ask("POST", ["explain"], { body });
      fill(outcome, h("p", {}, verdict(answer), answer.route && h("span", { class: "quiet" }, ` by the route ${answer.route}`)), walk(answer));
      announce(answer.passes ? "The request passes" : `The request is refused with ${answer.status} ${answer.code}`);
    } catch (error) {
      fill(outcome, faultNotice(error));
    }
  }

  return panel("Test a request", { id: "tester", note: "Decided as a real one, but not sent. The token is not logged." },
    h("div", { class: "tester" },
      h("form", { class: "stack", novalidate: true, onsubmit: submit },
        h("div", { class: "row" }, field("test-method", "Method", method), field("test-url", "URL", url)),
        field("test-token", "Token", token, "A bearer, without or with the word Bearer. Empty: none."),
        h("details", {}, h("summary", {}, "Address and headers"),
          h("div", { class: "stack" }, field("test-from", "Client address", from, "Empty: 127.0.0.1."),
            field("test-headers", "Headers", lines, "One a line."))),
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Test"))),
      outcome));
}

// MARK: the page

export const page = {
  mount(root) {
    const routes = routeTable();
    const endpoints = h("div", {}, loading());
    let list = null;
    const summary = small();
    const stop = new AbortController();
    fill(root, pageHead("Routes", "As the gateway understands them, with what passed since it started."),
      panel("Routes", { id: "route-list", tools: [summary] }, routes.element), tester(),
      panel("Own endpoints", { id: "endpoint-list" }, endpoints));
    routes.instead(loading());
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, 5_000);

    async function load() {
      try {
        const answer = await get(["routes"], {}, stop.signal);
        routes.show(answer.routes);
        list ??= endpointTable(answer.endpoints.every(({ counts }) => counts));
        list.show(answer.endpoints);
        if (list.element.parentNode !== endpoints) fill(endpoints, list.element);
        summary.textContent = `${count(answer.routes.length)} ${answer.routes.length === 1 ? "route" : "routes"}`;
      } catch (error) {
        if (error.name === "AbortError") return;
        routes.instead(faultNotice(error, load));
        fill(endpoints, h("p", { class: "quiet" }, "Not loaded."));
      }
    }

    return () => {
      stop.abort();
      clearInterval(timer);
    };
  },
};
