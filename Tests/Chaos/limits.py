"""The bounds of limits over a run: by the access logs of all gateways, and by the upstreams' own count."""
import glob
import json
import re
import subprocess

from model import CLOCK_DELAY
from processes import ENVIRONMENT
from world import LIMITS

# Bursts that may pass beyond the bound for each fault that makes gateways count for themselves, or loses counts in Redis
# (docs/limits.md).
BURSTS_PER_FAULT = 3
# Seconds of a run in which more than a quarter of a gateway's requests may be counted there without a fault. Redis has 25 ms
# to answer, which a machine that is busy with other tests misses at times: then a gateway counts a few requests for itself, and
# all for half a second if its circuit breaker opens. Without one of a cluster's three primaries it is a third or more.
BUSY_SECONDS = 3
BUSY_SHARE = 0.25


class Slack:
    """What may pass beyond burst + rate × T: for each fault three bursts, and in each second in which a gateway counted for
    itself its share of the rate, while the others count in Redis. `spans` are the (begin, end) of the faults."""

    def __init__(self, spans, fallback_seconds):
        self.spans, self.fallback_seconds = spans, fallback_seconds

    def allowed(self, rate, burst, begin=0.0, end=float("inf")):
        """A fault counts until five seconds after its end, for as long as a heartbeat counts a gateway that is gone."""
        faults = sum(first <= end and begin <= last + 5 for first, last in self.spans)
        alone = sum(begin - 1 <= second <= end + 1 for second in self.fallback_seconds)
        return burst * (BURSTS_PER_FAULT * faults + (1 if alone else 0)) + rate * alone


def sources(gateways):
    """For each gateway's name, by the second of its clock: (requests that it counted for itself, all that were counted)."""
    found = {}
    for gateway in gateways:
        seconds = found[gateway.name] = {}
        for path in glob.glob(f"{gateway.folder}/output-*"):
            with open(path, errors="replace") as log:
                for line in log:
                    if limit := re.search(r'"limit_source":"(\w+)".*"limit_at":(\d+)', line):
                        alone, all = seconds.get(second := int(limit[2]) // 1_000_000, (0, 0))
                        seconds[second] = (alone + (limit[1] == "fallback"), all + 1)
    return found


def fallbacks(sources):
    """The seconds in which any gateway has counted for itself."""
    return {second for seconds in sources.values() for second, (alone, _) in seconds.items() if alone}


def check_shared(gateways, sources, spans, judge, pauses=()):
    """While Redis is whole, limits are counted there. `spans` are the (names of gateways, begin, end) of faults in which these
    may count for themselves, which holds from a second before to five after. `pauses` are the (begin, end) of times in which the
    machine ran nothing of the suite, so that Redis, to which the way leads through the suite, was late; a gateway counts for itself
    for half a second more. Returns the seconds that none explains."""
    odd = {}
    for gateway in gateways:
        for second, (alone, all) in sources[gateway.name].items():
            moments = true_times(gateway, second)
            # Redis stamps what it counts by its own clock, and a gateway whose clock is set by that one.
            all += sum(sources[gateway.name].get(moment, (0, 0))[1] for moment in moments if moment != second)
            if alone <= BUSY_SHARE * all or any(begin - 1 <= moment <= end + 0.6 for moment in moments for begin, end in pauses):
                continue
            if not any(gateway.name in names and begin - 1 <= moment <= end + 5
                       for moment in moments for names, begin, end in spans):
                odd.setdefault(moments[0], []).append(f"{gateway.name} ({alone} of {all})")
    if len(odd) > BUSY_SECONDS:
        said = ", ".join(f"{moment} by {' and '.join(names)}" for moment, names in sorted(odd.items()))
        judge.ledger.violated(f"limits are counted in Redis while it is whole; not in the {len(odd)} seconds {said}")
    return len(odd)


def true_times(gateway, second):
    """When a second of a gateway's clock, which the suite sets, may have been; never empty."""
    offsets = dict.fromkeys(offset for _, offset in reversed(gateway.offsets))
    return [second - offset for offset in offsets
            if offset in gateway.clock(second - offset - CLOCK_DELAY, second - offset + 1)] or [second]


def verify(binary, gateways, slack, judge):
    """`tollgate limits verify` over the logs; its violations must be within the slack. Returns the largest excess in bursts."""
    logs = [path for gateway in gateways for path in sorted(glob.glob(f"{gateway.folder}/output-*"))]
    done = subprocess.run([binary, "limits", "verify", "--json"] + logs, capture_output=True, text=True, env=ENVIRONMENT)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        judge.ledger.violated(f"limits verify reads the logs: {done.stdout}{done.stderr}")
        return 0.0
    judge.ledger.count("logged grants", report["grants"])
    worst = 0.0
    for violation in report["violations"]:
        rate, burst = LIMITS["/counted/" + violation["route"]]
        allowed = slack.allowed(rate, burst, violation["from_us"] / 1e6, violation["to_us"] / 1e6)
        excess = violation["admitted"] - violation["bound"]
        worst = max(worst, excess / burst)
        if excess > allowed:
            judge.ledger.violated(f"a limit keeps its bound and {allowed} requests for faults: {violation}")
    return worst


def compare(world, slack, judge):
    """The upstreams' own counts, by route and user; returns the largest excess in bursts."""
    arrived = {}
    for path, user, when in world.recorded("counted"):
        arrived.setdefault((path, user), []).append(when)
    worst = 0.0
    for (path, user), times in arrived.items():
        rate, burst = LIMITS[path]
        # A second for requests that were admitted at different times and arrive at once.
        length = max(times) - min(times) + 1
        plain = burst + rate * length
        worst = max(worst, (len(times) - plain) / burst)
        judge.ceiling(f"{path} of {user} in {length:.1f} s", len(times), plain + slack.allowed(rate, burst))
    return worst
