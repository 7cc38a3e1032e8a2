/// The walk of a request through the gate, as `tollgate explain` prints it, and the drawer that shows that of a refusal.

import { get } from "./api.js";
import { open } from "./dialog.js";
import { badge, facts, faultNotice, fill, h, loading, userName } from "./dom.js";
import { exactly, requestLine, statusKind } from "./format.js";

const meanings = {
  client: "Where the request came from, behind trusted proxies",
  path: "The path as routes see it",
  route: "The first route that fits",
  caller: "Whether an internal caller is recognised",
  identity: "Who the token is, and whether it is good",
  standing: "Where session and tier stand now",
  tier: "The tier that the route asks for",
  limit: "The counters that were charged",
  cause: "What went wrong on the way",
  verdict: "The end",
};

/// The steps in order, with the verdict last.
export function walk({ steps, passes, status, code }) {
  return h("ol", { class: "walk" }, (steps ?? []).map(({ step, text }, index) => {
    const isLast = index === steps.length - 1;
    const kind = isLast ? (passes ? "good" : statusKind(status)) : /\brefused\b/.test(text) ? "warn" : "neutral";
    return h("li", { class: `step ${kind}` },
      h("span", { class: "step-name", title: meanings[step] }, step), h("span", { class: "step-text" }, text));
  }), !steps?.length && h("li", { class: "step" }, h("span", { class: "step-text quiet" }, `No steps were kept${code ? ` for ${code}` : ""}.`)));
}

/// The verdict in a badge: `passes`, or status and code.
export function verdict({ passes, status, code }) {
  return passes ? badge("passes", "good") : badge(`${status ?? ""} ${code ?? "refused"}`.trim(), statusKind(status));
}

/// The facts and the walk of a refusal.
function details(decision) {
  return h("div", { class: "stack" },
    h("p", {}, verdict(decision)),
    facts([
      ["Request", h("code", {}, requestLine(decision))],
      ["Host", decision.host && h("code", {}, decision.host)],
      ["Time", exactly(decision.time)],
      ["Request ID", h("code", {}, decision.request_id)],
      ["Route", decision.route], ["User", decision.user && userName(decision.user)],
    ]),
    h("h3", {}, "The walk"), walk(decision));
}

/// Opens the drawer of a refusal by its request id.
export function openDecision(id, onclose) {
  return open("Why it was refused", () => {
    const place = h("div", { class: "stack" });
    async function load() {
      fill(place, loading("Loading the walk…"));
      try {
        const { decisions } = await get(["decisions"], { request_id: id });
        fill(place, decisions.length > 0 ? details(decisions[0])
          : h("div", { class: "notice" }, h("p", { class: "strong" }, "This refusal is no longer kept"),
            h("p", {}, "Each worker keeps its newest 256. The access log still has the line of this request: ", h("code", {}, id))));
      } catch (error) {
        fill(place, faultNotice(error, load));
      }
    }
    load();
    return place;
  }, { kind: "drawer", onclose });
}
