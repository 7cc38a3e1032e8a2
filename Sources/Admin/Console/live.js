/// The stream of `/admin/api/live`: one connection for all pages, with back-off, and polling where the stream is refused.
///
/// It is read by fetch instead of EventSource, which hides the status: 401 ends in the sign-in and 503 says why.

import { ask, Fault, send } from "./api.js";
import { quantile, ratesBetween } from "./rates.js";

const kept = 15 * 60;
const silence = 8_000;
const longestWait = 30_000;
const latencyWindow = 10_000;
const shortest = 500;

/// Samples in order, each `{ at, now, rates, latency }`; `rates` is null where the counters say nothing.
export const samples = [];

/// `starting`, `live`, `polling`, `waiting` (until the next try) or `stopped`; `reason` says why it is not live.
export const state = { name: "stopped", reason: "", until: 0 };

const listeners = { now: new Set(), refusal: new Set(), skipped: new Set(), state: new Set() };
let running = null;

/// Calls `action` for each event of a kind until the answer is called.
export function on(kind, action) {
  listeners[kind].add(action);
  return () => listeners[kind].delete(action);
}

function tell(kind, payload) {
  for (const action of [...listeners[kind]]) action(payload);
}

function become(name, reason = "", until = 0) {
  Object.assign(state, { name, reason, until });
  tell("state", state);
}

/// The newest answer, or null.
export const newest = () => samples.at(-1)?.now ?? null;

/// Adds an answer of `now` with its rates; latencies are of the last ten seconds.
function record(now) {
  const at = Date.parse(now.at);
  const last = samples.at(-1);
  // After the gateway's clock stepped back, the older samples lie in the future of the charts.
  if (last && at < last.at) samples.length = 0;
  // The stream's first answer may follow a poll at once: rates over a moment are noise.
  else if (last && at - last.at < shortest && last.now.instance === now.instance) return;
  const rates = last ? ratesBetween(last.now, now) : null;
  const base = rates && (samples.findLast((sample) => at - sample.at >= latencyWindow && sample.now.instance === now.instance) ?? samples[0]);
  const estimate = (share) => base ? quantile(base.now, now, share) : null;
  samples.push({ at, now, rates, latency: { p50: estimate(0.5), p90: estimate(0.9), p99: estimate(0.99) } });
  while (samples.length > kept) samples.shift();
  tell("now", samples.at(-1));
}

function dispatch(name, data) {
  if (name === "now") record(data);
  else if (listeners[name]) tell(name, data);
}

/// Reads a stream of events (HTML Living Standard, 9.2.6); the fields `id` and `retry` are not used.
async function read(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += value.replaceAll("\r", "");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart());
      const data = field("data").join("\n");
      if (data) dispatch(field("event")[0] ?? "message", JSON.parse(data));
    }
  }
}

/// One connection, to its end; answers the fault that ended it. Silence ends it too: the stream speaks each second.
async function connection(stop) {
  const abort = new AbortController();
  const cut = () => abort.abort();
  stop.addEventListener("abort", cut);
  let timer = setTimeout(cut, silence);
  try {
    const answer = await send("GET", ["live"], { signal: abort.signal, headers: { Accept: "text/event-stream" } });
    become("live");
    await read(answer.body, () => {
      clearTimeout(timer);
      timer = setTimeout(cut, silence);
    });
    return new Fault("offline", "The stream ended", "The gateway ended the stream, as it does when it drains.");
  } catch (error) {
    return error instanceof Fault ? error : new Fault("offline", "The gateway does not answer", "The stream was cut.");
  } finally {
    clearTimeout(timer);
    stop.removeEventListener("abort", cut);
  }
}

function pause(milliseconds, stop) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stop.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
    running.hurry = () => { clearTimeout(timer); resolve(); };
  });
}

/// Asks once without the stream. 401 goes to the sign-in.
async function poll(stop) {
  try {
    record(await ask("GET", ["now"], { signal: stop }));
    return null;
  } catch (error) {
    return error;
  }
}

async function run(stop) {
  let wait = 1_000;
  while (!stop.aborted) {
    if (state.name !== "waiting" && state.name !== "polling") become("starting");
    const began = Date.now();
    const fault = await connection(stop);
    if (stop.aborted) return;
    if (Date.now() - began > 10_000) wait = 1_000;
    const other = await poll(stop);
    if (stop.aborted) return;
    if (other) become("waiting", other.message, Date.now() + wait);
    else become("polling", fault.kind === "offline" ? "" : fault.message, Date.now() + wait);
    // Jitter: consoles that lost the same gateway do not come back at once.
    await pause(wait * (0.8 + 0.4 * Math.random()), stop);
    wait = Math.min(2 * wait, other ? longestWait : 4_000);
  }
}

/// Starts the stream; without effect while it runs.
export function start() {
  if (running) return;
  running = { abort: new AbortController(), hurry: () => {} };
  run(running.abort.signal);
}

/// Ends the stream. The samples stay.
export function stop() {
  running?.abort.abort();
  running = null;
  become("stopped");
}

/// Tries again now instead of at the end of the wait.
export function hurry() { running?.hurry(); }

/// Forgets everything, at a sign-out.
export function forget() { samples.length = 0; }
