/// Numbers, times and names as text.

import { h, none } from "./dom.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const exactTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/// `1,234`; `1.23M` from a hundred thousand on.
export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return Math.abs(value) < 100_000 ? whole.format(value) : compact.format(value);
}

/// A count whose exact value is in its title.
export function counted(value) {
  return h("span", { class: "number", title: Math.abs(value) >= 100_000 ? whole.format(value) : null }, count(value));
}

/// A rate: decimals only where they say something.
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 0.1) return "<0.1";
  return value < 9.95 ? value.toFixed(1) : count(Math.round(value));
}

/// A size in memory: `512 B`, `1.2 MiB`.
export function bytes(value) {
  const step = Math.max(0, Math.min(3, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  const amount = value / 1_024 ** step;
  return `${amount < 10 && step > 0 ? Number(amount.toFixed(1)) : Math.round(amount)} ${["B", "KiB", "MiB", "GiB"][step]}`;
}

/// A part of a whole.
export function percent(part, all) {
  if (!all) return "–";
  const value = 100 * part / all;
  if (value === 0) return "0%";
  if (value < 0.1) return "<0.1%";
  return value < 10 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}

/// Seconds of a latency: `850 µs`, `1.2 ms`, `2.4 s`.
export function latency(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0";
  const trim = (value, unit) => `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ${unit}`;
  if (seconds < 0.001) return trim(seconds * 1e6, "µs");
  return seconds < 1 ? trim(seconds * 1e3, "ms") : trim(seconds, "s");
}

const units = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];

/// A span of seconds in at most two units: `3 d 4 h`.
export function span(seconds) {
  let left = Math.max(0, Math.round(seconds));
  const words = [];
  for (const [name, size] of units) {
    const amount = Math.floor(left / size);
    if (amount > 0) words.push(`${amount} ${name}`); else if (words.length > 0) break;
    left -= amount * size;
    if (words.length === 2) break;
  }
  return words.join(" ") || "0 s";
}

/// A time relative to now: `12 s ago`, `in 4 min`; a date from thirty days on.
function relative(date, now = Date.now()) {
  const seconds = (date.getTime() - now) / 1000;
  const size = Math.abs(seconds);
  if (size < 1.5) return "now";
  if (size >= 30 * 86_400) return day.format(date);
  const [name, unit] = units.find(([, unit]) => size >= unit) ?? units.at(-1);
  const amount = `${Math.floor(size / unit)} ${name}`;
  return seconds < 0 ? `${amount} ago` : `in ${amount}`;
}

/// A `<time>` that stays right: its text is relative, its title exact.
export function when(text) {
  const date = new Date(text ?? NaN);
  if (Number.isNaN(date.getTime())) return none();
  return h("time", { datetime: text, title: `${exactTime.format(date)} (${text})`, class: "moving" }, relative(date));
}

/// The time of day, with the exact time in its title.
export function clockTime(text) {
  const date = new Date(text ?? NaN);
  if (Number.isNaN(date.getTime())) return none();
  return h("time", { datetime: text, title: `${exactTime.format(date)} (${text})` }, clock.format(date));
}

/// The exact time with the relative one behind it.
export function exactly(text) {
  const date = new Date(text ?? NaN);
  return Number.isNaN(date.getTime()) ? "–" : [exactTime.format(date), h("span", { class: "quiet" }, " (", when(text), ")")];
}

/// Keeps the relative times of the page right.
export function keepTimesMoving() {
  setInterval(() => {
    const now = Date.now();
    for (const element of document.querySelectorAll("time.moving")) {
      const text = relative(new Date(element.dateTime), now);
      if (element.textContent !== text) element.textContent = text;
    }
  }, 1_000);
}

/// `last_used_at` as `last used at`.
const words = (name) => name.replaceAll("_", " ").replaceAll("-", " ");

/// The same with a capital: a label.
export const label = (name) => {
  const text = words(name);
  return text.charAt(0).toUpperCase() + text.slice(1);
};

/// The badge kind of a status code.
export function statusKind(status) {
  if (status >= 500) return "bad";
  return status >= 400 ? "warn" : "good";
}

/// Method and path of a request; one that could not be read has neither.
export const requestLine = ({ method, path }) => `${method} ${path}`.trim() || "malformed request";

/// A value of JSON whose meaning the page does not know: times as times, the rest as text.
export function value(json) {
  if (json === null || json === undefined) return "–";
  if (typeof json === "boolean") return json ? "yes" : "no";
  if (typeof json === "number") return Number.isInteger(json) ? count(json) : String(Number(json.toPrecision(3)));
  if (typeof json === "string") return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(json) ? when(json) : json;
  return JSON.stringify(json);
}

/// The rows of `facts` for an object of the API. Members called `…_seconds` are spans.
export const rows = (object) => Object.entries(object ?? {}).map(([name, json]) => {
  if (!name.endsWith("_seconds") || typeof json !== "number") return [label(name), value(json)];
  return [label(name.slice(0, -"_seconds".length)), json < 60 ? latency(json) : span(json)];
});
