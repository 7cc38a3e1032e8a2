/// Rates from totals. Pure: two answers of `/admin/api/now` in, numbers per second out.

/// Whether the counters began anew between two answers, or are another gateway's.
function began(before, after) {
  return before.instance !== after.instance || after.uptime_seconds < before.uptime_seconds
    || after.requests_total < before.requests_total;
}

function perSecond(before, after, seconds) {
  const rates = {};
  for (const [name, total] of Object.entries(after ?? {})) {
    // A code that appears for the first time counted from 0.
    rates[name] = Math.max(0, total - (before?.[name] ?? 0)) / seconds;
  }
  return rates;
}

/// The rates between two answers, or null where they say nothing: counters that began anew, or no time between them.
export function ratesBetween(before, after) {
  const seconds = (Date.parse(after.at) - Date.parse(before.at)) / 1000;
  if (!(seconds > 0) || began(before, after)) return null;
  const byStatus = perSecond(before.by_status, after.by_status, seconds);
  const refusals = perSecond(before.refusals, after.refusals, seconds);
  return {
    seconds,
    requests: (after.requests_total - before.requests_total) / seconds,
    limited: Math.max(0, after.limited_total - before.limited_total) / seconds,
    byStatus, refusals,
    refused: Object.values(refusals).reduce((sum, rate) => sum + rate, 0),
  };
}

/// The requests per bucket between two answers, as `[upper bound in seconds, requests]`. Those above all bounds are the rest.
function bucketsBetween(before, after) {
  const old = new Map((before?.duration_buckets ?? []).map(({ le, count }) => [le, count]));
  const buckets = (after.duration_buckets ?? []).map(({ le, count }) => [le, Math.max(0, count - (old.get(le) ?? 0))]);
  const all = after.requests_total - (before?.requests_total ?? 0);
  return [...buckets, [Infinity, Math.max(0, all - buckets.reduce((sum, [, own]) => sum + own, 0))]];
}

/// An estimate of a quantile of the latency between two answers, in seconds: linear within its bucket, as PromQL's
/// histogram_quantile. null without a request. `before` null: since the gateway started.
export function quantile(before, after, share) {
  const buckets = bucketsBetween(before && !began(before, after) ? before : null, after);
  const all = buckets.reduce((sum, [, own]) => sum + own, 0);
  if (all === 0) return null;
  let rest = share * all;
  let lower = 0;
  for (const [bound, own] of buckets) {
    if (own >= rest && own > 0) return bound === Infinity ? lower : lower + (bound - lower) * (rest / own);
    rest -= own;
    if (bound !== Infinity) lower = bound;
  }
  return lower;
}
