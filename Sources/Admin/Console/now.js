/// The page Now: what the gateway does at this moment, and the state of what it needs.

import { spark, timeChart } from "./charts.js";
import { badge, empty, facts, faultNotice, fill, h, loading, none, pageHead, panel, setText, small } from "./dom.js";
import { count, counted, latency, percent, rate, rows, span, when } from "./format.js";
import * as live from "./live.js";
import { table } from "./table.js";

const windows = [[60, "1 min"], [300, "5 min"], [900, "15 min"]];
const sparkSeconds = 60;
const mostCodes = 6;
let chosen = 300;

/// The rate of a status class of a sample.
const ofStatus = (name) => (sample) => sample.rates ? sample.rates.byStatus[name] ?? 0 : null;

/// The classes of status in the chart; those that are rare only once they happened.
const classes = [
  ["1xx", "series-4", true], ["2xx", "series-good"], ["3xx", "series-1"], ["4xx", "series-warn"], ["5xx", "series-bad"],
  ["aborted", "series-rest", true],
];

const statusSeries = (now) => classes.filter(([name, , isRare]) => !isRare || now.by_status?.[name] > 0)
  .map(([name, kind]) => ({ name, kind, value: ofStatus(name) }));

const share = (part, rates) => rates?.requests ? `${percent(part, rates.requests)}; ` : "";
const sum = (object) => Object.values(object ?? {}).reduce((total, value) => total + value, 0);

// MARK: tiles

function tile(title, unit, kind, value, note, line) {
  const number = h("span", {}, "–");
  const text = h("p", { class: "quiet small" });
  const chart = spark(kind);
  return {
    element: h("li", { class: "tile" }, h("h2", {}, title),
      h("p", { class: "tile-number" }, number, unit && h("span", { class: "unit" }, unit)), text, chart.element),
    update(sample, samples) {
      setText(number, value(sample));
      setText(text, note(sample));
      chart.update(samples.map(line));
    },
  };
}

function makeTiles() {
  const of = (name) => (sample) => sample.rates ? sample.rates[name] : null;
  const failed = ofStatus("5xx");
  return [
    tile("Requests", "/s", "series-1", (sample) => rate(of("requests")(sample)), ({ now }) => `${count(now.requests_total)} in all`, of("requests")),
    tile("Refused", "/s", "series-warn", (sample) => rate(of("refused")(sample)),
      ({ rates, now }) => `${share(rates?.refused, rates)}${count(sum(now.refusals))} in all`, of("refused")),
    tile("Server errors", "/s", "series-bad", (sample) => rate(failed(sample)),
      ({ rates, now }) => `${share(rates?.byStatus["5xx"] ?? 0, rates)}${count(now.by_status?.["5xx"] ?? 0)} in all`, failed),
    tile("Latency, p99", "", "series-2", (sample) => latency(sample.latency.p99),
      ({ latency: { p50 }, now }) => `median ${latency(p50)}; p99 of all ${latency(now.latency_seconds?.p99)}`, (sample) => sample.latency.p99),
    tile("Limits hit", "/s", "series-3", (sample) => rate(of("limited")(sample)), ({ now }) => `${count(now.limited_total)} in all`, of("limited")),
    tile("Connections", "", "series-4", ({ now }) => count(now.connections?.open ?? 0),
      ({ now }) => `${count(now.connections?.http2_streams ?? 0)} HTTP/2 streams, ${count(now.streams_open ?? 0)} long-lived`,
      ({ now }) => now.connections?.open ?? null),
  ];
}

// MARK: charts

/// The codes with the most refusals since the start, and the others together.
function codeSeries(now) {
  const codes = Object.entries(now.refusals ?? {}).sort((one, other) => other[1] - one[1]).map(([code]) => code);
  const shown = codes.slice(0, mostCodes);
  const series = shown.map((code, index) => ({
    name: code, kind: `series-${index + 1}`, value: (sample) => sample.rates ? sample.rates.refusals[code] ?? 0 : null,
  }));
  if (codes.length > shown.length) {
    series.push({
      name: "others", kind: "series-rest",
      value: (sample) => sample.rates ? sample.rates.refused - shown.reduce((total, code) => total + (sample.rates.refusals[code] ?? 0), 0) : null,
    });
  }
  return series;
}

function makeCharts() {
  const requests = timeChart({
    title: "Requests a second, by status", format: rate, unit: "/s", stacked: true, series: statusSeries({}),
  });
  const refusals = timeChart({ title: "Refusals a second, by code", format: rate, unit: "/s", stacked: true, series: [] });
  const times = timeChart({
    title: "Latency over ten seconds", format: latency,
    series: [["p50", "series-1"], ["p90", "series-2"], ["p99", "series-5"]]
      .map(([name, kind]) => ({ name, kind, value: (sample) => sample.latency[name] })),
  });
  const limited = timeChart({
    title: "Requests over their limit, a second", format: rate, unit: "/s",
    series: [{ name: "limited", kind: "series-3", value: (sample) => sample.rates?.limited ?? null }],
  });
  return { requests, refusals, times, limited };
}

// MARK: what it needs

const checkNames = { redis: "Redis", postgres: "PostgreSQL", bus: "Bus", accounts: "Accounts", serving: "Serving", keys: "Keys" };
const good = new Set(["ready", "ok", "up", "in", "connected"]);

/// One entry per check; the reason stands beside one that is not ready.
function showChecks(place, checks) {
  fill(place, h("ul", { class: "checks" }, (checks ?? []).map(({ name, state, status, reason }) => {
    const word = state ?? status ?? "unknown";
    const kind = good.has(word) ? "good" : word === "degraded" || word === "starting" ? "warn" : "bad";
    return h("li", {}, h("span", { class: `dot ${kind}`, "aria-hidden": "true" }), h("span", { class: "strong" }, checkNames[name] ?? name),
      badge(word, kind), reason && small(reason));
  })));
}

const stateKinds = { in: "good", starting: "warn", ejected: "bad", unhealthy: "bad" };

function upstreamTable() {
  return table({
    caption: "Addresses of the upstreams", key: ({ upstream, address }) => `${upstream} ${address}`,
    empty: empty("No upstreams", "A TOLLGATE_UPSTREAM_… line names one."),
    columns: [
      { head: "Upstream", isHead: true, cell: ({ upstream, panic }) => [upstream, panic && badge("panic", "bad")] },
      { head: "Address", cell: ({ address }) => h("code", {}, address) },
      { head: "State", cell: ({ state }) => badge(state, stateKinds[state] ?? "neutral") },
      { head: "Share", kind: "right", cell: ({ share }) => `${share}%` },
      { head: "Under way", kind: "right", cell: ({ requests }) => counted(requests) },
      { head: "Connections", kind: "right", cell: ({ connections }) => counted(connections) },
      { head: "Reason", cell: ({ detail, reason, until }) => detail || reason ? [detail ?? reason, until && [", until ", when(until)]] : none() },
    ],
  });
}

const addresses = ({ upstreams }) => (upstreams ?? []).flatMap(({ name, panic, addresses }) =>
  addresses.map((address) => ({ ...address, upstream: name, panic })));

function showBus({ carrier, ...others } = {}) {
  return carrier || others.connected ? facts([["Carrier", carrier], ...rows(others)])
    : h("p", { class: "quiet" }, "None: this gateway is alone, or it looks for the changes of others in the database.");
}

/// The key sets by issuer, with the failures of their fetches.
function showKeys(keys) {
  const issuers = Object.entries(keys ?? {});
  return [
    issuers.length > 0 && facts(issuers.map(([issuer, { keys, failures, fetched_at: at }]) => [
      issuer, [
        `${count(keys)} ${keys === 1 ? "key" : "keys"}`, at && [", fetched ", when(at)],
        failures > 0 && [" ", badge(`${count(failures)} failed`, "warn")],
      ],
    ])),
    h("p", { class: "quiet" }, issuers.length === 0 && "No outside issuers. ", h("a", { href: "#/keys" }, "All keys")),
  ];
}

// MARK: the page

export const page = {
  mount(root) {
    const tiles = makeTiles();
    const charts = makeCharts();
    const checks = h("div", {});
    const gateway = h("div", {});
    const bus = h("div", {});
    const keys = h("div", {});
    const upstreams = upstreamTable();
    const body = h("div", { class: "stack", hidden: true });
    const first = h("div", { class: "first" }, loading("Waiting for the first numbers…"));

    const choice = h("div", { class: "choice", role: "group", "aria-label": "Time shown" }, windows.map(([seconds, text]) =>
      h("button", {
        type: "button", "aria-pressed": String(seconds === chosen),
        onclick(event) {
          chosen = seconds;
          for (const button of choice.children) button.setAttribute("aria-pressed", String(button === event.target));
          drawCharts();
        },
      }, text)));

    function drawCharts() {
      for (const chart of Object.values(charts)) chart.update(live.samples, chosen);
    }

    let shownFacts = "";

    function update(sample) {
      const { now } = sample;
      body.hidden = false;
      fill(first);
      const recent = live.samples.filter(({ at }) => sample.at - at <= sparkSeconds * 1_000);
      for (const one of tiles) one.update(sample, recent);
      charts.requests.setSeries(statusSeries(now));
      charts.refusals.setSeries(codeSeries(now));
      drawCharts();
      upstreams.show(addresses(now));
      const facet = JSON.stringify([now.checks, now.bus, now.keys, now.workers, now.version, Math.floor(now.uptime_seconds / 60)]);
      if (facet === shownFacts) return;
      shownFacts = facet;
      showChecks(checks, now.checks);
      fill(bus, showBus(now.bus));
      fill(keys, showKeys(now.keys));
      fill(gateway, facts([
        ["Instance", now.instance && h("code", {}, now.instance)], ["Version", now.version], ["Workers", now.workers],
        ["Up", h("span", { title: `${count(now.uptime_seconds)} s` }, span(now.uptime_seconds))],
      ]));
    }

    fill(body,
      h("ul", { class: "tiles" }, tiles.map(({ element }) => element)),
      h("div", { class: "grid-2" },
        panel("Requests", { id: "requests", note: "by status, stacked" }, charts.requests.element),
        panel("Refusals", { id: "refusals", note: "by code, stacked" }, charts.refusals.element),
        panel("Latency", { id: "latency", note: "of the last ten seconds" }, charts.times.element),
        panel("Limits", { id: "limits", note: "requests over their limit" }, charts.limited.element)),
      h("div", { class: "grid-4" },
        panel("Health", { id: "health" }, checks), panel("Bus", { id: "bus" }, bus),
        panel("Keys of issuers", { id: "keys-now" }, keys), panel("Gateway", { id: "gateway" }, gateway)),
      panel("Upstreams", { id: "upstreams" }, upstreams.element));
    fill(root, pageHead("Now", "This gateway, each second.", choice), first, body);

    const latest = live.samples.at(-1);
    if (latest) update(latest);
    const ends = [
      live.on("now", update),
      live.on("state", ({ name, reason }) => {
        if (name !== "waiting" || live.samples.length > 0) return;
        fill(first, faultNotice({ kind: "offline", title: "The gateway does not answer", message: reason }, live.hurry));
      }),
    ];
    return () => { for (const end of ends) end(); };
  },
};
