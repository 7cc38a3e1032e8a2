#!/usr/bin/env python3
"""The chaos suite: gateways, their databases and upstreams under load, with faults from a seed. See docs/chaos.md."""
import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

import faults
import limits
from clients import Member, Presser
from model import Judge, Ledger
from redis import TOPOLOGIES
from world import LIMITS, World

# Seconds within which everything must serve again when a fault has ended.
RECOVERY = 30
# Seconds of a run that are for start and end.
FRAME = 14
MEMBERS = 15
# Seconds in which nothing of the suite ran are a pause of the machine from this length on.
PAUSE = 0.1
# The least that a run checks of each, which one of a few seconds on a busy machine reaches.
REQUIRED = {"identities": 1, "orders": 1, "refreshes": 1, "sign-outs": 1, "looks at ended sessions": 1, "filtered lists": 1,
            "counted": 20, "limited": 20, "logged grants": 20, "counts of callers": len(LIMITS)}
DEFAULT_TOPOLOGIES = ["cluster", "sentinel"]


class Run:
    def __init__(self, options, topology, seed, seconds):
        self.options, self.topology, self.seed, self.seconds = options, topology, seed, seconds
        self.folder = tempfile.mkdtemp(prefix="tollgate-chaos-")
        os.chmod(self.folder, 0o711)
        self.start = time.time()
        self.ledger = Ledger(report=self.say)
        self.timeline, self.recoveries = [], {}
        # (begin, end) of faults that slacken limits; (names of gateways, begin, end) of those in which these count for themselves.
        self.spans, self.alone = [], []
        # (begin, end) of times in which the machine did not run the suite.
        self.pauses = []
        self.orders, self.faults, self.excess = {}, 0, "not known"
        self.world = World(self.folder, options.binary, topology, self.ledger)
        self.judge = Judge(self.ledger, self.world.troubles)

    def say(self, text):
        print(f"{time.time() - self.start:7.2f}  {text}", flush=True)

    def note(self, text):
        self.timeline.append(f"{time.time():.3f}  {text}")
        if self.options.verbose:
            self.say(text)

    async def run(self):
        """Whether nothing was violated."""
        try:
            await self.world.start()
            await self.calm("the start", [])
            clients = self.clients()
            until = asyncio.Event()
            tasks = [asyncio.create_task(client.run(until)) for client in clients]
            watches = [asyncio.create_task(watch) for watch in (self.watch(tasks), self.watch_machine())]
            try:
                await self.disturb()
            finally:
                until.set()
                for watch in watches:
                    watch.cancel()
            await asyncio.gather(*tasks)
            await self.check_all(clients)
            for client in clients:
                client.close()
            for fault in await self.world.end():
                self.ledger.violated(fault)
            self.check_records()
        except Exception as fault:
            self.ledger.violated(f"the suite goes on: {''.join(traceback.format_exception(fault))}")
        except asyncio.CancelledError:
            await self.world.kill()
            shutil.rmtree(self.folder)
            raise
        await self.world.kill()
        return self.report()

    def clients(self):
        gateways = self.world.gateways
        numbers = random.Random(f"{self.seed} clients")
        found = [Member(number, gateways, self.judge, random.Random(numbers.random()), self.orders) for number in range(MEMBERS)]
        for number, path in enumerate(LIMITS):
            pause = 0.04 if number == 0 else 0.02
            found.append(Presser(MEMBERS + number, gateways, self.judge, random.Random(numbers.random()), path, pause))
        return found

    async def watch(self, tasks):
        """A client that fails is a fault of the suite."""
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            if task.exception():
                self.ledger.violated(f"a client of the suite goes on: {task.exception()!r}")

    async def watch_machine(self):
        while True:
            begin = time.time()
            await asyncio.sleep(PAUSE / 2)
            if time.time() - begin > 1.5 * PAUSE:
                self.pauses.append((begin, time.time()))

    # MARK: faults

    async def disturb(self):
        end = time.time() + self.seconds
        numbers = random.Random(f"{self.seed} faults")
        for round in faults.plan(self.world, numbers, self.options.alone, self.options.only):
            await asyncio.sleep(numbers.uniform(0.3, 1.0))
            if time.time() > end or len(self.ledger.violations) > 20:
                return
            await self.make(round)

    async def make(self, round):
        self.faults += len(round)
        made, begins = [], time.time()
        for fault in round:
            for part, gateways in fault.touches():
                made += self.world.troubles.begin(part, gateways, time.time())
            self.note(f"begin {fault.what()}")
            await fault.begin()
        # In the order of their lengths.
        for fault in sorted(round, key=lambda fault: fault.seconds):
            await asyncio.sleep(max(0.0, begins + fault.seconds - time.time()))
            await fault.end()
            self.note(f"end {fault.name}")
        await self.calm(" + ".join(fault.name for fault in round), made, max(fault.took for fault in round))
        self.spans += [(begins, time.time())] * sum(fault.slackens for fault in round)
        self.alone += [(fault.counts_alone(), begins, time.time()) for fault in round]
        for fault in round:
            await fault.restore()

    async def calm(self, name, made, took=0.0):
        """Waits until everything serves again; from then on nothing may fail. `took` seconds of it have passed."""
        begin = time.time() - took
        reason, last = await self.world.recovered(RECOVERY)
        if reason:
            self.ledger.violated(f"everything recovers by itself within {RECOVERY} s after {name}: {reason}")
        self.world.troubles.end(made, time.time())
        self.note(f"all is well {time.time() - begin:.2f} s later" + (f"; last {last}" if last else ""))
        self.recoveries.setdefault(name, []).append(time.time() - begin)

    # MARK: the end

    async def check_all(self, clients):
        """A full round of checks by every member, none of which may fail."""
        await self.calm("the last fault", [])
        # What has changed last counts everywhere by then.
        await asyncio.sleep(1)
        self.note("the last round of checks")
        await asyncio.wait_for(asyncio.gather(*(client.check_all() for client in clients if isinstance(client, Member))), 180)

    def check_records(self):
        self.judge.orders(self.orders, [(order, user) for order, user, _ in self.world.recorded("order")])
        sources = limits.sources(self.world.gateways)
        odd = limits.check_shared(self.world.gateways, sources, self.alone, self.judge, self.pauses)
        slack = limits.Slack(self.spans, limits.fallbacks(sources))
        by_logs = limits.verify(self.options.binary, self.world.gateways, slack, self.judge)
        by_count = limits.compare(self.world, slack, self.judge)
        self.excess = (f"{by_logs:.1f} bursts by the logs, {by_count:.1f} by the upstreams' count, "
                       f"with {len(self.spans)} faults that touch limits; {odd} seconds counted without Redis for no fault; "
                       f"the machine paused {len(self.pauses)} times, {sum(end - begin for begin, end in self.pauses):.1f} s in all")

    def report(self):
        name = f"seed {self.seed}, Redis as {self.topology}"
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.ledger.checked.items(), key=lambda item: -item[1]))
        print(f"{name}: {self.faults} faults in {time.time() - self.start:.0f} s; checked {counts}")
        if not self.ledger.violations:
            self.ledger.require(REQUIRED)
        slowest = sorted(((max(times), name) for name, times in self.recoveries.items()), reverse=True)
        print("slowest to recover: " + ", ".join(f"{name} {seconds:.1f} s" for seconds, name in slowest[:6]))
        print(f"beyond the bound of limits: {self.excess}")
        print(f"an ended session was accepted up to {self.judge.slowest_end:.1f} s later where the database could be reached")
        if self.options.verbose:
            for seconds, fault in slowest:
                print(f"    {seconds:5.1f} s  {fault}")
        violations = self.ledger.violations
        if not violations:
            print(f"{name}: nothing was violated")
            if self.options.keep:
                print(f"logs and databases are in {self.folder}")
            else:
                shutil.rmtree(self.folder)
            return True
        print(f"{name}: {len(violations)} VIOLATIONS; the faults were:")
        print("\n".join("    " + line for line in self.timeline))
        for violation in violations[:10]:
            print(violation)
        print(f"logs and databases are in {self.folder}; the same faults again: "
              f"deploy/test --chaos --seed {self.seed} --redis {self.topology}")
        return False


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="repeats the sequence of faults of an earlier run")
    parser.add_argument("--minutes", type=float, default=2.0, help="for each topology; at most 10 in all")
    parser.add_argument("--redis", action="append", choices=sorted(TOPOLOGIES),
                        help="the topology of Redis; several are run one after the other")
    parser.add_argument("--binary", default=os.environ.get("TOLLGATE_BINARY", f"{root}/.build/release/tollgate"))
    parser.add_argument("--alone", action="store_true", help="one fault at a time, to measure the time to recover of each")
    parser.add_argument("--only", action="append", metavar="FAULT", help="faults of this name alone, like gateway-killed")
    parser.add_argument("--keep", action="store_true", help="keeps the logs of a run without violations, too")
    parser.add_argument("--verbose", action="store_true", help="prints each fault")
    options = parser.parse_args()
    topologies = options.redis or DEFAULT_TOPOLOGIES
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    minutes = min(options.minutes, 10 / len(topologies))
    seconds = max(5.0, minutes * 60 - FRAME)
    good = True
    for topology in topologies:
        print(f"chaos: seed {seed}, {minutes:g} minutes, Redis as {topology}", flush=True)
        good = asyncio.run(run(Run(options, topology, seed, seconds))) and good
    sys.exit(0 if good else 1)


async def run(suite):
    """Runs it to its end, or until SIGINT or SIGTERM."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    return await suite.run()


main()
