/// The page Limits: the policies, the keys that are refused most, and where the counters are.

import { get } from "./api.js";
import { bar, timeChart } from "./charts.js";
import { badge, empty, facts, faultNotice, fill, h, loading, none, pageHead, panel, small, userName } from "./dom.js";
import { counted, rate } from "./format.js";
import * as live from "./live.js";
import { table } from "./table.js";

const seconds = 300;

function hottestTable() {
  return table({
    caption: "Keys with the most refusals", key: ({ route, policy, limit, key, issuer }) => [route, policy, limit, issuer, key].join(" "),
    empty: empty("No limit was hit", "A user or address that is refused for its limit appears here, the hottest first."),
    columns: [
      { head: "Key", isHead: true, kind: "grow", cell: ({ key }) => userName(key) },
      { head: "Kind", cell: ({ kind, issuer }) => kind ? (issuer ? `${kind} of ${issuer}` : kind) : none() },
      { head: "Route", cell: ({ route }) => route },
      { head: "Limit", cell: ({ limit, policy }) => h("code", {}, limit ?? policy) },
      { head: "Refused", kind: "right", cell: ({ refused }) => counted(refused) },
      { head: "Share", hideHead: true, kind: "bar-cell", cell: ({ refused, largest }) => bar(refused, largest, "series-3") },
    ],
  });
}

function policyTable() {
  return table({
    caption: "Limits of the routes", key: ({ route, policy, limit, key }) => [route, policy, limit, key].join(" "),
    empty: empty("No limits", "A route has one by limit=, for example limit=60/m."),
    columns: [
      { head: "Route", isHead: true, cell: ({ route }) => route },
      {
        head: "Limit", kind: "grow",
        cell: ({ limit, shadow }) => [h("code", {}, limit), shadow && [" ", badge("shadow: counts, never refuses", "warn")]],
      },
      { head: "Counted by", cell: ({ key }) => key },
      { head: "Without Redis", cell: ({ failure }) => failure ? badge(failure) : none() },
    ],
  });
}

function showRedis({ state, reason, topology }) {
  return facts([["Kept in", "Redis"], ["Topology", topology], ["State", badge(state, state === "ready" ? "good" : "warn")], ["Reason", reason]]);
}

export const page = {
  mount(root) {
    const hottest = hottestTable();
    const policies = policyTable();
    const redis = h("div", {});
    const since = small();
    const stop = new AbortController();
    const chart = timeChart({
      title: "Requests over their limit, a second", format: rate, unit: "/s",
      series: [{ name: "limited", kind: "series-3", value: (sample) => sample.rates?.limited ?? null }],
    });

    async function load() {
      try {
        const answer = await get(["limits"], {}, stop.signal);
        const list = answer.hottest ?? [];
        const largest = list.reduce((most, { refused }) => Math.max(most, refused), 0);
        hottest.show(list.map((entry) => ({ ...entry, largest })));
        policies.show(answer.policies ?? []);
        since.textContent = answer.hottest_since ? `by refusals since ${new Date(answer.hottest_since).toLocaleTimeString("en-GB")}` : "by refusals";
        fill(redis, answer.redis?.configured ? showRedis(answer.redis)
          : empty("Counted in this process", "REDIS_URL shares the counters among gateways."));
      } catch (error) {
        if (error.name === "AbortError") return;
        hottest.instead(faultNotice(error, load));
        policies.instead(h("p", { class: "quiet" }, "Not loaded."));
        fill(redis);
      }
    }

    fill(root, pageHead("Limits", "Who is held back, by which policy, and where the counters are."),
      panel("Hottest keys", { id: "hottest", tools: [since] }, hottest.element),
      h("div", { class: "grid-2" }, panel("Limits hit", { id: "hit" }, chart.element), panel("Counters", { id: "counters" }, redis)),
      panel("Policies", { id: "policies" }, policies.element));
    hottest.instead(loading());
    policies.instead(loading());
    load();
    chart.update(live.samples, seconds);
    const end = live.on("now", () => chart.update(live.samples, seconds));
    const timer = setInterval(() => { if (!document.hidden) load(); }, 3_000);
    return () => {
      stop.abort();
      clearInterval(timer);
      end();
    };
  },
};
