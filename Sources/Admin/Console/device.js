/// Short names of devices, from what they call themselves in User-Agent.

const systems = [
  ["iPhone", /iPhone/], ["iPad", /iPad/], ["Android", /Android/], ["Windows", /Windows/], ["Mac", /Macintosh|Mac OS X/], ["Linux", /Linux|X11/],
];
const browsers = [
  ["Edge", /Edg[A-Z]?[a-z]*\//], ["Firefox", /(Firefox|FxiOS)\//], ["Opera", /OPR\//], ["Chrome", /(Chrome|CriOS)\//], ["Safari", /Safari\//],
];

const first = (list, text) => list.find(([, pattern]) => pattern.test(text))?.[0];

/// `Safari on iPhone`, `Passages on an Apple device`, `curl`; null for a text that names none.
export function deviceName(text) {
  if (!text) return null;
  if (/CFNetwork\//.test(text)) return `${text.split("/")[0].trim()} on an Apple device`;
  const [system, browser] = [first(systems, text), first(browsers, text)];
  if (text.startsWith("Mozilla/")) return browser && system ? `${browser} on ${system}` : browser ?? system ?? null;
  const product = /^([A-Za-z][\w .-]{0,30})\//.exec(text)?.[1];
  return product ? (system ? `${product} on ${system}` : product) : null;
}
