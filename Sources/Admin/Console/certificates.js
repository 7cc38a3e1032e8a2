/// The certificates that an authority issues, a panel of the page Keys. It stays away where the gateway orders none.

import { ask, getIfKnown } from "./api.js";
import { confirm } from "./dialog.js";
import { badge, below, faultNotice, h, none, panel, toast } from "./dom.js";
import { count, when } from "./format.js";
import { table } from "./table.js";

const kinds = { valid: "good", late: "warn", expired: "bad", missing: "bad" };

function renew({ name }) {
  return confirm({
    title: "Order a certificate now?", isDangerous: false, button: "Order it",
    text: `The authority issues a new certificate for ${name}, whether one is due or not; authorities limit how often they do. The one in use stays until then.`,
    async action() {
      await ask("POST", ["certificates", name, "renew"]);
      toast(`A certificate for ${name} is being ordered.`);
    },
  });
}

function certificateTable(load) {
  return table({
    caption: "Certificates by name", key: ({ name }) => name,
    columns: [
      { head: "Name", isHead: true, kind: "grow", cell: ({ name, serial }) => [name, serial && below(h("code", { class: "wrap" }, serial))] },
      { head: "State", cell: ({ status }) => badge(status, kinds[status] ?? "neutral") },
      { head: "Expires", cell: ({ not_after: at }) => at ? when(at) : none() },
      { head: "Next order", cell: ({ next_order_at: at }) => when(at) },
      {
        head: "Last fault",
        cell: ({ failures, problem }) => failures > 0
          ? [h("span", { class: "bad-text" }, problem ?? "failed"), below(`${count(failures)} in a row`)] : none(),
      },
      {
        head: "Order", hideHead: true, kind: "right",
        cell: (certificate) => h("button", {
          type: "button", class: "plain", "aria-label": `Order a certificate for ${certificate.name}`,
          async onclick() { if (await renew(certificate)) load(); },
        }, "Order…"),
      },
    ],
  });
}

/// The panel, and how it is loaded.
export function certificates(signal) {
  const list = certificateTable(load);
  const element = panel("Certificates", { id: "certificates", note: "that an authority issues" }, list.element);
  element.hidden = true;

  async function load() {
    try {
      const all = (await getIfKnown(["certificates"], signal))?.certificates ?? [];
      element.hidden = all.length === 0;
      if (all.length > 0) list.show(all);
    } catch (error) {
      if (error.name === "AbortError") return;
      element.hidden = false;
      list.instead(faultNotice(error, load));
    }
  }

  return { element, load };
}
