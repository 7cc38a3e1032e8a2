/// The page Refusals: the newest ones and those that come, with filters. Each opens its walk.

import { get } from "./api.js";
import { announce, badge, empty, faultNotice, fill, h, loading, none, pageHead, panel, verbatim } from "./dom.js";
import { clockTime, count, requestLine, statusKind } from "./format.js";
import * as live from "./live.js";
import { table } from "./table.js";
import { openDecision } from "./walk.js";

const kept = 200;
const filterNames = [["code", "Code"], ["status", "Status"], ["route", "Route"], ["user", "User"]];

/// The filters stay while the console is open.
const filters = { code: "", status: "", route: "", user: "" };

/// The route of a refusal, if one matched: of its own member, else of its steps.
const routeOf = ({ route, steps }) => route ?? steps?.find(({ step }) => step === "route")?.text.match(/^([^:\s]+):/)?.[1] ?? "";

function fits(decision) {
  return (filters.code === "" || decision.code === filters.code)
    && (filters.status === "" || String(decision.status) === filters.status)
    && (filters.route === "" || routeOf(decision) === filters.route)
    && (filters.user === "" || decision.user === filters.user);
}

function refusalTable() {
  return table({
    caption: "Refusals, newest first", key: (decision) => decision.request_id,
    empty: empty("No refusals", "A request that the gate refuses appears here at once, with the reason."),
    columns: [
      { head: "Time", cell: ({ time }) => clockTime(time) },
      { head: "Status", cell: ({ status }) => badge(status, statusKind(status)) },
      { head: "Code", cell: ({ code }) => h("code", {}, code) },
      {
        head: "Request", isHead: true, kind: "grow",
        cell: ({ request_id: id, method, path }) => h("a", {
          href: `#/refusals/${encodeURIComponent(id)}`, class: "request", title: requestLine({ method, path }),
        }, method || path ? [h("span", { class: "method" }, method), " ", path] : requestLine({ method, path })),
      },
      { head: "Route", cell: (decision) => routeOf(decision) || h("span", { class: "quiet" }, "none") },
      { head: "User", kind: "clip", cell: ({ user }) => user ? h("span", { title: user }, user) : none() },
    ],
  });
}

export const page = {
  mount(root, rest) {
    const list = refusalTable();
    const note = h("p", { class: "quiet small" });
    const stop = new AbortController();
    const inputs = {};
    const codes = h("datalist", { id: "codes" });
    let shown = [];
    let waiting = [];
    let skipped = 0;
    let isPaused = false;
    let unsaid = 0;
    let loadID = 0;
    let drawer = null;

    const pause = h("button", {
      type: "button",
      onclick() {
        isPaused = !isPaused;
        pause.classList.toggle("primary", isPaused);
        if (!isPaused) take(waiting.splice(0));
        tellState();
      },
    }, "Pause");

    function tellState() {
      pause.textContent = isPaused ? "Resume" : "Pause";
      const parts = [`${count(shown.length)} shown`];
      if (isPaused) parts.push(`paused, ${count(waiting.length)} new`);
      if (skipped > 0) parts.push(`${count(skipped)} left out: too many a second for this page`);
      note.textContent = parts.join("; ");
    }

    function take(decisions) {
      if (decisions.length === 0) return;
      const known = new Set(decisions.map(({ request_id: id }) => id));
      shown = [...decisions.toReversed(), ...shown.filter(({ request_id: id }) => !known.has(id))].slice(0, kept);
      draw();
    }

    /// Draws ten times a second at most, however many come.
    let isDue = false;
    function draw() {
      if (isDue) return;
      isDue = true;
      setTimeout(() => {
        isDue = false;
        if (stop.signal.aborted) return;
        list.show(shown);
        const seen = [...new Set([...Object.keys(live.newest()?.refusals ?? {}), ...shown.map(({ code }) => code)])].sort();
        if (codes.childElementCount !== seen.length) fill(codes, seen.map((code) => h("option", { value: code })));
        tellState();
      }, 100);
    }

    async function load() {
      const own = loadID += 1;
      try {
        const { decisions } = await get(["decisions"], { limit: kept, ...filters }, stop.signal);
        if (own !== loadID) return;
        // Those that came by the stream in the meantime are newer.
        const newer = shown.filter((one) => fits(one) && !decisions.some(({ request_id: id }) => id === one.request_id)
          && one.time > (decisions[0]?.time ?? ""));
        shown = [...newer, ...decisions].slice(0, kept);
        draw();
      } catch (error) {
        if (error.name !== "AbortError" && own === loadID) list.instead(faultNotice(error, load));
      }
    }

    let typing;
    function changed() {
      clearTimeout(typing);
      typing = setTimeout(() => {
        for (const [name] of filterNames) filters[name] = inputs[name].value.trim();
        clear.hidden = Object.values(filters).every((text) => text === "");
        shown = shown.filter(fits);
        waiting = waiting.filter(fits);
        load();
      }, 250);
    }
    const clear = h("button", {
      type: "button", class: "plain", hidden: Object.values(filters).every((text) => text === ""),
      onclick() {
        for (const [name] of filterNames) inputs[name].value = "";
        changed();
      },
    }, "Clear the filters");

    const form = h("form", { class: "filters", role: "search", "aria-label": "Filter the refusals", onsubmit: (event) => event.preventDefault() },
      filterNames.map(([name, title]) => {
        inputs[name] = h("input", {
          type: "text", id: `filter-${name}`, value: filters[name], oninput: changed, ...verbatim,
          list: name === "code" ? "codes" : null, inputmode: name === "status" ? "numeric" : null,
          placeholder: { code: "PREMIUM_REQUIRED", status: "403", route: "any", user: "an id" }[name],
        });
        return h("div", { class: "field" }, h("label", { for: `filter-${name}` }, title), inputs[name]);
      }), clear, codes);

    fill(root, pageHead("Refusals", "The newest that the workers keep, and each new one as it happens.", pause),
      panel("Live", { id: "live", tools: [note] }, form, list.element));
    list.instead(loading());
    load();

    const ends = [
      live.on("refusal", (decision) => {
        if (!fits(decision)) return;
        unsaid += 1;
        if (!isPaused) return take([decision]);
        waiting = [...waiting, decision].slice(-kept);
        tellState();
      }),
      live.on("skipped", ({ count: more }) => {
        skipped += more;
        tellState();
      }),
      // Asks for the refusals that happened while the stream was disconnected.
      live.on("state", ({ name }) => { if (name === "live" && !isPaused) load(); }),
    ];
    const timer = setInterval(() => {
      if (unsaid > 0 && !isPaused) announce(`${unsaid} new ${unsaid === 1 ? "refusal" : "refusals"}`);
      unsaid = 0;
    }, 15_000);

    this.update = ([id]) => {
      drawer?.close();
      drawer = id ? openDecision(id, () => {
        drawer = null;
        // The address names the walk as long as it is open.
        if (location.hash === `#/refusals/${encodeURIComponent(id)}`) history.replaceState(null, "", "#/refusals");
      }) : null;
      return true;
    };
    if (rest.length > 0) this.update(rest);

    return () => {
      stop.abort();
      clearInterval(timer);
      clearTimeout(typing);
      for (const end of ends) end();
    };
  },
};
