/// Tables that are updated in place: a row whose data is the same keeps its elements, and with them focus and selection.

import { append, fill, h, none } from "./dom.js";

/// A table. `columns` are `{ head, cell(row), kind, isHead, hideHead }`; the first one with `isHead` names the row. `key(row)` tells rows
/// apart. `empty` is shown instead of a table without rows. On a narrow screen each row is a card, so the roles are explicit.
export function table({ caption, columns, key, empty, rowClass = () => null }) {
  const body = h("tbody", { role: "rowgroup" });
  const element = h("table", { role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((column) =>
      h("th", { scope: "col", role: "columnheader", class: column.kind }, column.hideHead ? h("span", { class: "unseen" }, column.head) : column.head)))),
    body);
  const frame = h("div", { class: "table" }, element);
  const place = h("div", { class: "table-place" });
  let known = new Map();

  function makeRow(row) {
    return h("tr", { role: "row", class: rowClass(row) }, columns.map((column) => {
      const attributes = { class: column.kind, "data-label": column.hideHead ? null : column.head };
      const content = h("div", { class: "cell" }, column.cell(row) ?? none());
      return column.isHead ? h("th", { scope: "row", role: "rowheader", ...attributes }, content) : h("td", { role: "cell", ...attributes }, content);
    }));
  }

  return {
    element: place,
    /// Shows these rows, in this order.
    show(rows) {
      if (rows.length === 0) {
        known = new Map();
        body.replaceChildren();
        fill(place, empty);
        return;
      }
      const next = new Map();
      let before = null;
      for (const row of rows) {
        const id = key(row);
        const signature = JSON.stringify(row);
        const old = known.get(id);
        const entry = old?.signature === signature ? old : { signature, element: makeRow(row) };
        if (old && old !== entry) old.element.replaceWith(entry.element);
        next.set(id, entry);
      }
      for (const [id, entry] of known) if (next.get(id) === undefined) entry.element.remove();
      for (const { element } of next.values()) {
        const expected = before ? before.nextSibling : body.firstChild;
        if (expected !== element) body.insertBefore(element, expected);
        before = element;
      }
      known = next;
      if (frame.parentNode !== place) fill(place, frame);
    },
    /// Shows something else instead: a fault, or that it is loading.
    instead(node) { append(fill(place), [node]); },
  };
}
