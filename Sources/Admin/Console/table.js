/// Tables that are updated in place: what did not change keeps its elements, and with them focus, selection and open details.

import { append, faultNotice, fill, h, loading, none } from "./dom.js";

/// A table. `columns` are `{ head, cell(row), kind, isHead, hideHead }`; the one with `isHead` names the row. `key(row)` tells rows
/// apart. `empty` is shown instead of a table without rows. On a narrow screen each row is a card, so the roles are explicit.
export function table({ caption, columns, key, empty }) {
  const body = h("tbody", { role: "rowgroup" });
  const frame = h("div", { class: "table" }, h("table", { role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((column) =>
      h("th", { scope: "col", role: "columnheader", class: column.kind },
        column.hideHead ? h("span", { class: "unseen" }, column.head) : column.head)))),
    body));
  const place = h("div", { class: "table-place" });
  let known = new Map();

  function makeCell(column, row) {
    const attributes = { class: column.kind, "data-label": column.hideHead ? null : column.head };
    const content = h("div", { class: "cell" }, column.cell(row) ?? none());
    return column.isHead ? h("th", { scope: "row", role: "rowheader", ...attributes }, content) : h("td", { role: "cell", ...attributes }, content);
  }

  /// A cell as it was made, to compare with: what the user opens in it later does not count.
  const made = (element) => ({ element, text: element.outerHTML });

  function makeRow(row) {
    const cells = columns.map((column) => made(makeCell(column, row)));
    return { element: h("tr", { role: "row" }, cells.map(({ element }) => element)), cells, signature: JSON.stringify(row) };
  }

  function updateRow(entry, row) {
    const signature = JSON.stringify(row);
    if (entry.signature === signature) return;
    entry.signature = signature;
    columns.forEach((column, index) => {
      const fresh = made(makeCell(column, row));
      if (fresh.text === entry.cells[index].text) return;
      entry.cells[index].element.replaceWith(fresh.element);
      entry.cells[index] = fresh;
    });
  }

  return {
    element: place,
    /// Shows these rows, in this order.
    show(rows) {
      const next = new Map();
      for (const row of rows) {
        const id = key(row);
        const entry = known.get(id);
        if (entry) updateRow(entry, row);
        next.set(id, entry ?? makeRow(row));
      }
      for (const [id, entry] of known) if (!next.has(id)) entry.element.remove();
      let expected = body.firstChild;
      for (const { element } of next.values()) {
        if (element === expected) expected = expected.nextSibling; else body.insertBefore(element, expected);
      }
      known = next;
      const shown = rows.length > 0 ? frame : empty;
      if (shown.parentNode !== place || place.childElementCount !== 1) fill(place, shown);
    },
    /// Shows something else instead: a fault, or that it is loading.
    instead(node) { append(fill(place), [node]); },
  };
}

/// Rows on a page of a list.
export const size = 50;

/// A table of pages. `read(last, signal)` answers the rows behind the row `last`, at most `size`; a new reading ends the one before.
export function pages(list, read) {
  const more = h("button", { type: "button", hidden: true, onclick: () => load(true) }, "Show more");
  let rows = [];
  let running = new AbortController();
  async function load(isMore = false) {
    running.abort();
    running = new AbortController();
    try {
      const found = await read(isMore ? rows.at(-1)?.id : undefined, running.signal);
      rows = isMore ? [...rows, ...found] : found;
      more.hidden = found.length < size;
      list.show(rows);
    } catch (error) {
      if (error.name !== "AbortError") list.instead(faultNotice(error, () => load()));
    }
  }
  list.instead(loading());
  load();
  return { element: h("div", { class: "stack" }, list.element, h("div", { class: "buttons" }, more)), load: () => load(), end: () => running.abort() };
}
