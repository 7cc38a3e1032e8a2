/// The page Configuration: each setting in force and where it came from, and the last reload.

import { get } from "./api.js";
import { badge, empty, facts, faultNotice, fill, h, loading, pageHead, panel, small, verbatim } from "./dom.js";
import { count, when } from "./format.js";
import { table } from "./table.js";

function settingTable() {
  return table({
    caption: "Settings in force", key: ({ name }) => name,
    empty: empty("No setting fits", "Another text finds more; “Only those that are set” hides defaults."),
    columns: [
      { head: "Setting", isHead: true, cell: ({ name }) => h("code", {}, name) },
      {
        head: "Value", kind: "grow",
        cell: ({ value, secret, source }) => secret ? h("span", { class: "quiet" }, source === "default" ? "not set" : "secret, never shown")
          : value === null || value === undefined || value === "" ? h("span", { class: "quiet" }, "empty") : h("code", { class: "wrap" }, value),
      },
      { head: "From", cell: ({ source }) => source === "default" ? h("span", { class: "quiet" }, "default") : h("code", { class: "small" }, source) },
      { head: "A reload", cell: ({ restart }) => restart ? badge("needs a restart", "warn") : h("span", { class: "quiet" }, "takes it") },
    ],
  });
}

function showReload(answer) {
  const { last_reload: reload, loaded_at: loaded, version } = answer;
  const faults = [...reload?.faults ?? [], ...reload?.warnings ?? []];
  return [
    facts([
      ["In force since", when(loaded)], ["Adopted", version && `${count(version)} since the start`],
      ["Last reload", reload ? [badge(reload.ok ? "adopted" : "refused", reload.ok ? "good" : "bad"), " ", when(reload.at)] : "none since the start"],
    ]),
    faults.length > 0 && h("div", { class: `notice ${reload.ok ? "warn" : "bad"}` },
      h("p", { class: "strong" }, reload.ok ? "The reload says" : "The reload was refused: the configuration before it is still in force"),
      h("ul", { class: "faults" }, faults.map((fault) => h("li", {}, h("code", { class: "wrap" }, fault))))),
  ];
}

export const page = {
  mount(root) {
    const list = settingTable();
    const reload = h("div", { class: "stack" }, loading());
    const note = small();
    const stop = new AbortController();
    let settings = null;

    const text = h("input", {
      type: "search", id: "setting-search", placeholder: "A part of a name or a value", oninput: draw, ...verbatim,
    });
    const onlySet = h("input", { type: "checkbox", id: "only-set", onchange: draw });

    function draw() {
      if (!settings) return;
      const part = text.value.trim().toLowerCase();
      const shown = settings.filter(({ name, value, source }) => (!onlySet.checked || source !== "default")
        && (part === "" || name.toLowerCase().includes(part) || String(value ?? "").toLowerCase().includes(part)));
      list.show(shown);
      note.textContent = `${count(shown.length)} of ${count(settings.length)}`;
    }

    async function load() {
      try {
        const answer = await get(["configuration"], {}, stop.signal);
        settings = answer.settings;
        draw();
        fill(reload, showReload(answer));
      } catch (error) {
        if (error.name === "AbortError") return;
        list.instead(faultNotice(error, load));
        fill(reload, h("p", { class: "quiet" }, "Not loaded."));
      }
    }

    const refresh = h("button", { type: "button", onclick: load }, "Refresh");
    fill(root, pageHead("Configuration", "What is in force, and which line or variable said so.", refresh),
      panel("Reload", { id: "reload" }, reload),
      panel("Settings", { id: "settings", tools: [note] },
        h("form", { class: "filters loose", role: "search", "aria-label": "Filter the settings", onsubmit: (event) => event.preventDefault() },
          h("div", { class: "field fill" }, h("label", { for: "setting-search" }, "Find"), text),
          h("div", { class: "check" }, onlySet, h("label", { for: "only-set" }, "Only those that are set"))), list.element));
    list.instead(loading());
    load();
    return () => stop.abort();
  },
};
