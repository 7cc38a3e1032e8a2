"""The faults. Each is drawn from the seed's random numbers before anything runs, so that a seed repeats their sequence."""
import asyncio
import os
import signal
import time

from model import ACCOUNTS, GATEWAY, UPSTREAM
from processes import SetupError


class Disturbance:
    """One fault: `begin`, some seconds, `end`.

    `touches` names the parts that gateways may be without meanwhile; whatever it does not touch must go on. Of faults with
    the same `group` one is made at a time.
    """

    group = "none"
    # Seconds in which another server took the place of a lost one, by itself.
    took = 0.0
    # Whether counts in Redis may be lost or the gateways count for themselves: a limit has its documented slack then.
    slackens = False
    # The topologies of Redis that can have it.
    topologies = ("single", "cluster", "sentinel")

    def __init__(self, world, random):
        self.world = world
        self.pick = random.randrange(60)
        # Shorter and longer than most timeouts of the gateways.
        self.seconds = round(random.uniform(*random.choice([(1, 3), (1, 3), (4, 7)])), 1)

    @property
    def name(self):
        words = "".join(" " + letter.lower() if letter.isupper() else letter for letter in type(self).__name__)
        return words.strip().replace(" ", "-")

    def what(self):
        return f"{self.name} {self.target()} for {self.seconds} s"

    def target(self):
        return ""

    def touches(self):
        """(part, names of gateways)."""
        return []

    def counts_alone(self):
        """The names of gateways that may count for themselves meanwhile, as Redis does not answer them in time."""
        return [name for part, names in self.touches() if part == GATEWAY for name in names]

    async def begin(self):
        pass

    async def end(self):
        pass

    async def restore(self):
        """After the gateways have recovered: gives back what the next fault needs, like a standby."""


class OfLinks:
    """Harms each of `links()` by `harm`, and heals them at its end."""

    async def begin(self):
        for link in self.links():
            self.harm(link)

    async def end(self):
        for link in self.links():
            link.heal()


# MARK: gateways

class OfGateway(Disturbance):
    group = "gateway"

    @property
    def gateway(self):
        return self.world.gateways[self.pick % len(self.world.gateways)]

    def target(self):
        return self.world.names[self.pick % len(self.world.names)]

    def touches(self):
        return [(GATEWAY, [self.target()])]


class GatewayKilled(OfGateway):
    slackens = True

    async def begin(self):
        await self.gateway.end(signal.SIGKILL)

    async def end(self):
        await self.gateway.start()


class GatewayStopped(OfGateway):
    async def begin(self):
        self.gateway.stop()

    async def end(self):
        self.gateway.go_on()


class GatewayRestarted(OfGateway):
    """SIGTERM, and a new one at once."""

    slackens = True

    async def begin(self):
        code = await self.gateway.end(signal.SIGTERM)
        if code != 0:
            self.world.ledger.violated(f"{self.target()} ends with 0 after SIGTERM, not with {code}")
        await self.gateway.start()


class GatewayFrozen(GatewayStopped):
    """SIGSTOP under refreshes, for longer than anything waits: it holds no rows, and what happened meanwhile counts at once."""

    def __init__(self, world, random):
        super().__init__(world, random)
        self.seconds = 12.0


class ClockJumps(OfGateway):
    def __init__(self, world, random):
        super().__init__(world, random)
        self.ahead = random.choice([-600, -60, 60, 600, 4000])

    @property
    def gateway(self):
        return self.world.gateways[-1]

    def target(self):
        return f"{self.world.names[-1]} by {self.ahead:+d} s"

    def touches(self):
        return []

    async def begin(self):
        self.gateway.set_clock(self.ahead)

    async def end(self):
        self.gateway.set_clock(0)


class ClocksApart(ClockJumps):
    """The clock of one gateway is a minute ahead of the others', or an hour behind, for longer than the grace of refresh tokens."""

    def __init__(self, world, random):
        super().__init__(world, random)
        self.ahead = random.choice([60, -3600])
        self.seconds = 35.0


class DiskFull(OfGateway):
    def touches(self):
        return []

    async def begin(self):
        self.gateway.fill_disk()

    async def end(self):
        self.gateway.free_disk()


# MARK: PostgreSQL

class OfDatabase(Disturbance):
    group = "database"

    def touches(self):
        return [(ACCOUNTS, self.world.names)]


class DatabaseFailsOver(OfDatabase):
    def __init__(self, world, random):
        super().__init__(world, random)
        self.seconds = 0.0

    async def begin(self):
        await self.world.postgres.fail_over()

    async def restore(self):
        await self.world.postgres.rejoin()


class DatabaseKilled(OfDatabase):
    """It comes back after crash recovery."""

    async def begin(self):
        await self.world.postgres.primary.end(signal.SIGKILL)

    async def end(self):
        await self.world.postgres.restart()


class DatabaseStopped(OfDatabase):
    async def begin(self):
        self.world.postgres.primary.stop()

    async def end(self):
        self.world.postgres.primary.go_on()


class StandbyStopped(OfDatabase):
    """Commits wait for it."""

    async def begin(self):
        self.world.postgres.standby.stop()

    async def end(self):
        self.world.postgres.standby.go_on()


class DatabaseCut(OfLinks, OfDatabase):
    """One gateway loses its lines to the database."""

    def links(self):
        return self.world.database_links[self.pick % len(self.world.names)]

    def target(self):
        return f"from {self.world.names[self.pick % len(self.world.names)]}"

    def touches(self):
        return [(ACCOUNTS, [self.world.names[self.pick % len(self.world.names)]])]

    def harm(self, link):
        link.cut()


class DatabaseSilent(DatabaseCut):
    def harm(self, link):
        link.hole()


class LinesSilent(DatabaseSilent):
    """For longer than the keepalives of both ends: the server ends the sessions, and the gateway connects anew."""

    def __init__(self, world, random):
        super().__init__(world, random)
        self.seconds = 20.0


class DatabaseSlow(DatabaseCut):
    def harm(self, link):
        link.slow(0.1)


class DatabaseSwitched(OfDatabase):
    """A planned switch: the primary is made read-only and goes on answering, the standby has all of it and is promoted."""

    def __init__(self, world, random):
        super().__init__(world, random)
        self.seconds = 0.0

    async def begin(self):
        await self.world.postgres.switch()

    async def restore(self):
        await self.world.postgres.retire()
        await self.world.postgres.rejoin()


class OfRows(Disturbance):
    """A session of psql, an operator's or a migration's: the gateways must not run out of connections by it."""

    group = "database"

    def touches(self):
        return [(ACCOUNTS, self.world.names)]

    async def end(self):
        await self.world.postgres.release(self.session)


class RowsLocked(OfRows):
    """It holds the rows of a third of the accounts; their users try again and again."""

    async def begin(self):
        self.session = await self.world.postgres.hold(
            "SELECT id FROM accounts WHERE get_byte(id, 15) % 3 = 0 FOR UPDATE; "
            "SELECT id FROM sessions WHERE get_byte(account, 15) % 3 = 0 FOR UPDATE")


class ChangesFlooded(OfRows):
    """It changes rows without a pause: each transaction logs more changes than a reading has."""

    async def begin(self):
        self.session = await self.world.postgres.repeat(
            "INSERT INTO ended_sessions (id, account, ended_at, reason) "
            "SELECT uuid_send(gen_random_uuid()), '\\x00000000000000000000000000000000', "
            "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'revoked' FROM generate_series(1, 20000)")


# MARK: Redis

class OfRedis(Disturbance):
    """Nothing but the counts of limits and the hints of changes depends on it."""

    group = "redis"
    slackens = True

    def counts_alone(self):
        return self.world.names

    async def begin(self):
        self.master = await self.world.redis.master(self.pick)
        self.link = self.world.redis.link(self.master, self.pick)
        await self.disturb()

    async def end(self):
        self.link.heal()
        self.master.go_on()

    async def restore(self):
        await self.world.redis.rejoin(self.master)
        await self.world.redis.settle()


class RedisKilled(OfRedis):
    """It comes back empty, or a replica takes its place."""

    def __init__(self, world, random):
        super().__init__(world, random)
        if world.redis.has_replicas:
            self.seconds = 0.0

    async def disturb(self):
        await self.master.end(signal.SIGKILL)

    async def end(self):
        begin = time.time()
        await self.world.redis.fail_over(self.master)
        self.took = time.time() - begin if self.world.redis.has_replicas else 0.0


class RedisStopped(OfRedis):
    async def disturb(self):
        self.master.stop()


class RedisCut(OfRedis):
    async def disturb(self):
        self.link.cut()


class RedisSilent(OfRedis):
    async def disturb(self):
        self.link.hole()


class RedisSlow(OfRedis):
    async def disturb(self):
        self.link.slow(0.06)


class RedisSwings(OfRedis):
    """Its answers come around the gateways' time-out of 25 ms: some late, some in time."""

    async def disturb(self):
        self.link.slow(0.006, 0.018)


class RedisFull(OfRedis):
    """It answers every write with an error, as when its memory is used up."""

    async def disturb(self):
        await self.master.ask("config", "set", "maxmemory", "1")

    async def end(self):
        await self.master.ask("config", "set", "maxmemory", "0")


class NodesParted(OfRedis):
    """A master of a cluster and the other nodes do not hear of each other, while the gateways and its replica reach it: for a moment
    there are two masters, then it refuses."""

    topologies = ("cluster",)

    async def disturb(self):
        self.world.redis.part(self.master)

    async def end(self):
        # The one that is cut off still takes itself for a master.
        self.world.ledger.count("replaced masters", len(await self.world.redis.masters()) - 3)
        self.world.redis.join()


class SlotsMove(Disturbance):
    """Slots of a cluster move with their keys from primary to primary: no count is lost, and all count in Redis meanwhile."""

    group = "redis"
    topologies = ("cluster",)

    async def begin(self):
        self.until = asyncio.Event()
        self.moving = asyncio.create_task(self.world.redis.move_slots(self.pick, self.until))

    async def end(self):
        self.until.set()
        self.world.ledger.count("moved slots", await self.moving)
        await self.world.redis.agree()


# MARK: upstreams

class OfUpstream(Disturbance):
    group = "upstream"

    @property
    def upstream(self):
        return self.world.upstreams[self.pick % len(self.world.upstreams)]

    def links(self):
        """Those of all gateways to the upstream."""
        return [links[self.pick % len(self.world.upstreams)] for links in self.world.upstream_links]

    def target(self):
        return f"{self.pick % len(self.world.upstreams)}"

    def touches(self):
        return [(UPSTREAM, self.world.names)]


class UpstreamKilled(OfUpstream):
    async def begin(self):
        await self.upstream.end(signal.SIGKILL)

    async def end(self):
        await self.world.start_upstream(self.upstream)


class UpstreamStopped(OfUpstream):
    async def begin(self):
        self.upstream.stop()

    async def end(self):
        self.upstream.go_on()


class UpstreamCut(OfLinks, OfUpstream):
    def harm(self, link):
        link.cut()


class UpstreamSilent(UpstreamCut):
    def harm(self, link):
        link.hole()


class UpstreamSlow(UpstreamCut):
    def harm(self, link):
        link.slow(0.3)


class UpstreamTorn(OfUpstream):
    """Its answers end in the middle."""

    async def begin(self):
        open(f"{self.upstream.folder}/record.torn", "w").close()

    async def end(self):
        os.unlink(f"{self.upstream.folder}/record.torn")


KINDS = [GatewayKilled, GatewayStopped, GatewayRestarted, ClockJumps, DiskFull, DatabaseFailsOver, DatabaseKilled, DatabaseStopped,
         StandbyStopped, DatabaseCut, DatabaseSilent, DatabaseSlow, RedisKilled, RedisStopped, RedisCut, RedisSilent, RedisSlow, RedisSwings, RedisFull,
         NodesParted, SlotsMove, UpstreamKilled, UpstreamStopped, UpstreamCut, UpstreamSilent, UpstreamSlow, UpstreamTorn,
         DatabaseSwitched, RowsLocked, ChangesFlooded]
# They take longer than a round of the plan, and are made only where they are named.
LONG = [GatewayFrozen, ClocksApart, LinesSilent]


def plan(world, random, alone=False, only=None):
    """Rounds of faults without end: the kinds like a deck of cards, which is shuffled anew when it is empty. A round has one
    to three at once, of different groups; `alone`: one."""
    kinds = [kind for kind in KINDS + (LONG if only else []) if world.redis.name in kind.topologies and (only is None or kind(world, random).name in only)]
    if not kinds:
        raise SetupError(f"with Redis as {world.redis.name} no fault is named {' or '.join(only)}")
    deck = []
    while True:
        round, groups = [], set()
        wanted = 1 if alone else random.choice([1, 2, 2, 3])
        if len(deck) < wanted:
            deck = random.sample(kinds, len(kinds)) + deck
        for kind in [kind for kind in reversed(deck)]:
            if len(round) < wanted and kind.group not in groups:
                groups.add(kind.group)
                deck.remove(kind)
                round.append(kind(world, random))
        yield round
