/// The page Outbox: mail and SMS of channels that are not configured, with the code or link to go on with.

import { get } from "./api.js";
import { badge, below, empty, faultNotice, fill, h, loading, pageHead, panel, toast } from "./dom.js";
import { when } from "./format.js";
import { table } from "./table.js";

/// The name of each channel, and the setting without which its messages are kept here.
const settings = { mail: ["Mail", "SMTP_URL"], sms: ["SMS", "TOLLGATE_SMS_URL"] };

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    // Browsers have no clipboard for pages without TLS on other hosts than localhost.
    toast("The browser does not let the page copy. Select the text instead.");
  }
}

/// The code or link of a message, and its text.
function content({ subject, text, code, link }) {
  const secret = code ?? link;
  return [
    subject && h("span", { class: "strong block" }, subject),
    secret && h("span", { class: "block" }, h("code", { class: "wrap" }, secret), " ",
      h("button", { type: "button", class: "plain", "aria-label": `Copy ${secret}`, onclick: () => copy(secret) }, "Copy")),
    h("details", {}, h("summary", {}, "Text"), h("pre", { class: "wrap" }, text)),
  ];
}

function messageTable() {
  return table({
    caption: "Messages, the newest first", key: ({ at, to, kind, text }) => [at, to, kind, text].join(" "),
    empty: empty("The outbox is empty", "Codes for sign-in and reset, and other messages, appear here as accounts ask for them."),
    columns: [
      { head: "Time", cell: ({ at }) => when(at) },
      { head: "To", isHead: true, cell: ({ to, channel }) => [to, below(settings[channel]?.[0] ?? channel)] },
      { head: "Kind", cell: ({ kind }) => badge(kind) },
      { head: "Message", kind: "grow", cell: content },
    ],
  });
}

/// Which channels land here, and how to have them sent.
function explanation(channels) {
  if (channels.length === 0) return "Mail and SMS are sent; this shows only what was kept before they were configured.";
  return [channels.map((channel) => settings[channel] ?? [channel]).map(([name, setting], index) =>
    [index > 0 && " ", `${name} is not sent, because `, h("code", {}, setting), " is not set."]), " The newest 200 messages are kept."];
}

export const page = {
  mount(root) {
    const list = messageTable();
    const note = h("p", { class: "quiet" });
    const stop = new AbortController();

    async function load() {
      try {
        const { channels, messages } = await get(["outbox"], {}, stop.signal);
        fill(note, explanation(channels));
        list.show(messages);
      } catch (error) {
        if (error.name !== "AbortError") list.instead(faultNotice(error, load));
      }
    }

    const refresh = h("button", { type: "button", onclick: load }, "Refresh");
    fill(root, pageHead("Outbox", "Messages that were written and not sent.", refresh), panel("Messages", { id: "messages" }, note, list.element));
    list.instead(loading());
    load();
    const timer = setInterval(load, 5_000);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  },
};
