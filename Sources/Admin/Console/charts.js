/// Charts over time as SVG: stacked areas or lines, with a legend whose numbers say in text what the lines show.

import { below, fill, h, s, setText } from "./dom.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const margin = { top: 8, right: 8, bottom: 20, left: 46 };
const height = 168;
let lastID = 0;

/// A round upper bound and the steps below it.
function ticks(highest, most = 4) {
  if (!(highest > 0)) return { top: 1, values: [0, 1] };
  const raw = highest / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw);
  const steps = Math.ceil(highest / step);
  return { top: steps * step, values: Array.from({ length: steps + 1 }, (_, index) => index * step) };
}

/// The pieces of a series without gaps: a missing value, or more than five seconds between samples, begins another.
function pieces(points) {
  const found = [];
  let piece = [];
  for (const point of points) {
    if (point.value === null || (piece.length > 0 && point.at - piece.at(-1).at > 5_500)) {
      if (piece.length > 0) found.push(piece);
      piece = [];
    }
    if (point.value !== null) piece.push(point);
  }
  if (piece.length > 0) found.push(piece);
  return found;
}

const place = (value) => value.toFixed(1);
const ago = (seconds) => seconds <= 60 ? `−${Math.round(seconds)} s` : `−${Number((seconds / 60).toFixed(2))} min`;

/// A chart. `series` are `{ name, kind, value(sample) }`, where `kind` is a class for its colour and a value may be null.
/// `format` writes a value. `update(samples, seconds)` draws the last seconds.
export function timeChart({ title, series: given, format, stacked = false, unit = "" }) {
  const id = `chart-${lastID += 1}`;
  const svgTitle = s("title", { id: `${id}-title` }, title);
  const description = s("desc", { id: `${id}-desc` });
  const grid = s("g", { class: "grid", "aria-hidden": "true" });
  const drawing = s("g", { "aria-hidden": "true" });
  const cursor = s("line", { class: "cursor", y1: margin.top, y2: height - margin.bottom, visibility: "hidden" });
  const svg = s("svg", { class: "chart", role: "img", height, "aria-labelledby": `${id}-title ${id}-desc`, tabindex: "0" },
    svgTitle, description, grid, drawing, cursor);
  const legend = h("ul", { class: "legend" });
  const moment = h("li", { class: "moment quiet" });
  const element = h("figure", { class: "figure" }, svg, h("figcaption", {}, legend));
  let series = given;
  let entries = new Map();
  let width = 480;
  let shown = [];
  let seconds = 300;
  let pointed = null;
  let drawnAt = 0;

  function makeLegend() {
    entries = new Map(series.map((one) => [one.name, h("span", { class: "number" })]));
    fill(legend, moment, series.map((one) => h("li", {}, h("span", { class: `swatch ${one.kind}`, "aria-hidden": "true" }),
      h("span", { class: "name" }, one.name), entries.get(one.name))));
  }

  /// The legend's numbers: those under the pointer, else the newest.
  function tellValues() {
    const sample = pointed ?? shown.findLast((sample) => sample.rates) ?? shown.at(-1);
    setText(moment, pointed ? `At ${new Date(pointed.at).toLocaleTimeString("en-GB")}` : "Now");
    for (const one of series) {
      const value = sample ? one.value(sample) : null;
      setText(entries.get(one.name), `${format(value)}${value === null ? "" : unit}`);
    }
    const values = series.map((one) => `${one.name} ${entries.get(one.name).textContent}`).join(", ");
    setText(description, `The last ${seconds / 60} minutes. ${pointed ? moment.textContent : "Now"}: ${values}.`);
  }

  function draw() {
    const end = shown.at(-1)?.at ?? Date.now();
    const begin = end - seconds * 1_000;
    const inside = shown.filter((sample) => sample.at >= begin);
    const sums = new Map(inside.map((sample) => [sample, 0]));
    const highest = inside.reduce((most, sample) => {
      const values = series.map((one) => one.value(sample) ?? 0);
      return Math.max(most, stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values));
    }, 0);
    const { top, values } = ticks(highest);
    const x = (at) => margin.left + (at - begin) / (end - begin) * (width - margin.left - margin.right);
    const y = (value) => height - margin.bottom - value / top * (height - margin.top - margin.bottom);

    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    // They divide one minute, and five or fifteen, into round pieces.
    const marks = seconds === 60 ? 4 : 5;
    fill(grid,
      values.map((value) => [
        s("line", { x1: margin.left, x2: width - margin.right, y1: place(y(value)), y2: place(y(value)) }),
        s("text", { x: margin.left - 6, y: place(y(value) + 3.5), "text-anchor": "end" }, format(value).replace(/\.0$/, "")),
      ]),
      Array.from({ length: marks + 1 }, (_, index) => s("text", {
        x: place(x(begin + (end - begin) * index / marks)), y: height - 4,
        "text-anchor": index === 0 ? "start" : index === marks ? "end" : "middle",
      }, index === marks ? "now" : ago(seconds * (1 - index / marks)))));

    const shapes = series.map((one) => {
      const points = inside.map((sample) => {
        const value = one.value(sample);
        const base = sums.get(sample);
        if (stacked && value !== null) sums.set(sample, base + value);
        return { at: sample.at, value, base };
      });
      return pieces(points).map((piece) => {
        const upper = piece.map((point) => `${place(x(point.at))} ${place(y(point.value + (stacked ? point.base : 0)))}`);
        if (!stacked) return s("path", { class: `line ${one.kind}`, d: `M${upper.join("L")}` });
        const lower = piece.toReversed().map((point) => `${place(x(point.at))} ${place(y(point.base))}`);
        return s("path", { class: `area stacked ${one.kind}`, d: `M${upper.join("L")}L${lower.join("L")}Z` });
      });
    });
    fill(drawing, shapes);
    if (inside.filter((sample) => sample.rates).length < 2) {
      fill(drawing, s("text", { class: "waiting", x: width / 2, y: height / 2, "text-anchor": "middle" }, "Waiting for more numbers…"));
    }
    cursor.setAttribute("visibility", pointed ? "visible" : "hidden");
    if (pointed) for (const end of ["x1", "x2"]) cursor.setAttribute(end, place(x(pointed.at)));
    tellValues();
  }

  function point(sample) {
    pointed = sample;
    draw();
  }

  svg.addEventListener("pointermove", (event) => {
    const end = shown.at(-1)?.at;
    if (!end) return;
    const box = svg.getBoundingClientRect();
    const at = end - (1 - (event.clientX - box.left - margin.left) / (box.width - margin.left - margin.right)) * length * 1_000;
    point(shown.reduce((best, sample) => Math.abs(sample.at - at) < Math.abs(best.at - at) ? sample : best));
  });
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("blur", () => point(null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[event.key];
    if (event.key === "Escape") point(null);
    if (!step || shown.length === 0) return;
    event.preventDefault();
    const from = pointed ? shown.indexOf(pointed) : shown.length - 1;
    point(shown[Math.min(shown.length - 1, Math.max(0, from + step))]);
  });
  new ResizeObserver(([entry]) => {
    const room = Math.round(entry.contentRect.width);
    if (room > 0 && room !== width) { width = room; draw(); }
  }).observe(element);
  makeLegend();

  return {
    element,
    update(samples, most) {
      // A page that should not move is drawn every five seconds.
      const isEarly = calm.matches && most === seconds && Date.now() - drawnAt < 5_000;
      [shown, seconds] = [samples, most];
      if (isEarly) return;
      drawnAt = Date.now();
      draw();
    },
    /// Exchanges the series, if their names differ.
    setSeries(next) {
      const isSame = next.length === series.length && next.every((one, index) => one.name === series[index].name);
      series = next;
      if (!isSame) makeLegend();
    },
  };
}

/// A line without axes, beside a number that says its end.
export function spark(kind) {
  const line = s("path", { class: `line ${kind}` });
  const area = s("path", { class: `area ${kind}` });
  const element = s("svg", { class: "spark", viewBox: "0 0 120 28", preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
  return {
    element,
    /// Draws the values in order, evenly; null is left out.
    update(all) {
      const values = all.filter((value) => value !== null);
      const highest = Math.max(...values, 0) || 1;
      const step = 120 / Math.max(1, values.length - 1);
      const points = values.map((value, index) => `${place(index * step)} ${place(26 - value / highest * 24)}`);
      const isDrawn = points.length > 1;
      line.setAttribute("d", isDrawn ? `M${points.join("L")}` : "");
      area.setAttribute("d", isDrawn ? `M${points.join("L")}L120 28L0 28Z` : "");
    },
  };
}

/// A bar for a share of the largest; the number stands beside it.
export function bar(value, largest, kind = "series-1") {
  const width = largest > 0 ? Math.max(1, 100 * value / largest) : 0;
  return s("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "bar-back", width: 100, height: 6, rx: 1 }), s("rect", { class: `bar-fill ${kind}`, width: place(width), height: 6, rx: 1 }));
}
