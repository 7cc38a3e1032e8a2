/// Builders of elements. Text becomes text nodes only and no markup is ever parsed, so values from strangers stay text.

const svgSpace = "http://www.w3.org/2000/svg";

/// Untrusted text as the log shows it: controls, which move the text around them, and those of bidirectional text, which reverse it,
/// are escapes. Tabs and the ends of lines stay.
export function shown(text) {
  return String(text).replace(/[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/// Children that are added: nodes, texts and numbers; null, undefined and false are left out, arrays are flattened.
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : shown(child));
  }
  return element;
}

/// `on…` members are listeners, true sets an attribute without a value, false and null set none.
function decorate(element, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : name === "title" || name === "aria-label" ? shown(value) : String(value));
  }
  return element;
}

/// An HTML element.
export function h(tag, attributes, ...children) {
  return append(decorate(document.createElement(tag), attributes), children);
}

/// An SVG element.
export function s(tag, attributes, ...children) {
  return append(decorate(document.createElementNS(svgSpace, tag), attributes), children);
}

/// Exchanges all children.
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/// Sets the text only if it differs, so that selections and screen readers are left alone.
export function setText(element, text) {
  const clean = shown(text);
  if (element.textContent !== clean) element.textContent = clean;
}

export const find = (id) => document.getElementById(id);

let announceTimer;

/// Says a text to screen readers, politely.
export function announce(text) {
  clearTimeout(announceTimer);
  const place = find("announcer");
  place.textContent = "";
  // A region announces changes only: the same text twice needs a moment without it.
  announceTimer = setTimeout(() => { place.textContent = shown(text); }, 60);
}

let toastTimer;

/// Shows the outcome of an action for a few seconds, and announces it.
export function toast(text) {
  const place = find("toast");
  clearTimeout(toastTimer);
  place.textContent = shown(text);
  place.hidden = false;
  announce(text);
  toastTimer = setTimeout(() => { place.hidden = true; }, 6_000);
}

/// A section with a heading, and perhaps controls beside it.
export function panel(title, { id, tools, note } = {}, ...children) {
  const heading = h("h2", { id: id ? `${id}-title` : null }, title);
  return h("section", { class: "panel", "aria-labelledby": id ? `${id}-title` : null, id },
    h("div", { class: "panel-head" }, heading, note && h("p", { class: "quiet small" }, note), tools && h("div", { class: "tools" }, tools)),
    children);
}

/// The heading of a page, which gets the focus on navigation.
export function pageHead(title, text, ...tools) {
  return h("div", { class: "page-head" },
    h("div", {}, h("h1", { tabindex: "-1" }, title), text && h("p", { class: "quiet" }, text)),
    tools.length > 0 && h("div", { class: "tools" }, tools));
}

/// A short word with a colour; the word alone says what the colour says.
export function badge(text, kind = "neutral") {
  return h("span", { class: `badge ${kind}` }, text);
}

/// Text beside a value that says less than it.
export const small = (...children) => h("span", { class: "quiet small" }, children);

/// The same in a line of its own.
export const below = (...children) => h("span", { class: "quiet small block" }, children);

/// A link to an account.
export const accountLink = (id, ...children) => h("a", { href: `#/people/${encodeURIComponent(id)}` }, children);

/// The id of a user: a link if it is that of an account, and not a name at an outside issuer.
export const userName = (id) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? accountLink(id, h("code", {}, id)) : h("code", {}, id);

/// Attributes of a field for names, tokens and addresses, which no keyboard should correct.
export const verbatim = { autocomplete: "off", autocapitalize: "none", spellcheck: "false" };

/// A control with its label, and perhaps a hint below it.
export function field(id, title, control, hint) {
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, title), control, hint && h("p", { id: `${id}-hint`, class: "quiet small" }, hint));
}

/// The place of a value that there is not. Narrow tables leave such cells out.
export const none = () => h("span", { class: "quiet none" }, "–");

/// A list of names and values. Rows whose value is null are left out.
export function facts(rows) {
  return h("dl", { class: "facts" },
    rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/// The text of a place that is empty: that it is, and when something would be there.
export function empty(title, text) {
  return h("div", { class: "empty" }, h("p", { class: "strong" }, title), text && h("p", { class: "quiet" }, text));
}

/// A fault in the place where its answer would stand, with a button to try again.
export function faultNotice(fault, again) {
  return h("div", { class: `notice ${fault.kind === "away" || fault.kind === "offline" ? "warn" : "bad"}`, role: "alert" },
    h("p", { class: "strong" }, fault.title),
    h("p", {}, fault.message),
    again && h("button", { type: "button", onclick: again }, "Try again"));
}

/// While an answer is waited for.
export function loading(text = "Loading…") {
  return h("p", { class: "loading quiet", role: "status" }, text);
}
