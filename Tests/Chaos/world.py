"""The system under test: three gateways over PostgreSQL and Redis with their upstreams, everything behind links."""
import asyncio
import glob
import json
import os
import re
import signal
import sys
import time

import clients
import model
from http1 import Connection, NoAnswer
from links import Link
from processes import SetupError, Postgres, Process
from redis import TOPOLOGIES

UPSTREAMS = 3
# The limits that the suite presses against: route, requests a second, burst.
LIMITS = {"/counted/exact": (20, 10), "/counted/leased": (60, 30)}
LEASED = "/counted/leased"
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"


class Gateway(Process):
    """A gateway; `incarnation` counts its starts. The last one of the suite has a clock that can be set."""

    def __init__(self, folder, name, binary, settings, has_clock):
        super().__init__(folder)
        self.name, self.binary, self.has_clock = name, binary, has_clock
        self.address = self.admin = ("127.0.0.1", 1)
        # (since when, seconds ahead); the last is in force.
        self.offsets = [(0.0, 0)]
        with open(f"{folder}/gateway.env", "w") as file:
            file.write("\n".join(settings) + f"\nTOLLGATE_DATA_DIR={folder}/data\n")
        self.set_clock(0)

    @property
    def incarnation(self):
        return self.starts

    def set_clock(self, seconds):
        self.offsets.append((time.time(), seconds))
        with open(f"{self.folder}/clock.new", "w") as file:
            file.write(f"{seconds:+d}s\n")
        os.rename(f"{self.folder}/clock.new", f"{self.folder}/clock")

    def clock(self, since, until):
        """The seconds that its clock was ahead between two moments, of which it may have been any."""
        found = []
        for begin, seconds in reversed(self.offsets):
            if begin <= until:
                found.append(seconds)
            if begin <= since:
                break
        return found

    async def start(self):
        environment = {}
        if self.has_clock:
            # The names in FAKETIME_SHARED need not exist. Without them the library sets the variable itself, which moves the
            # environment to where Swift does not find the arguments.
            found = glob.glob(FAKETIME)
            if not found:
                raise SetupError("libfaketime is missing: deploy/test --chaos installs it")
            environment = {"LD_PRELOAD": found[0], "FAKETIME_TIMESTAMP_FILE": f"{self.folder}/clock", "FAKETIME_CACHE_DURATION": "1",
                           "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_SHARED": "/none /none"}
        self.launch([self.binary, "serve", "--env-file", f"{self.folder}/gateway.env"], environment)
        await self.wait_for('"protocol":"admin"')
        ports = dict(re.findall(r'"address":"127.0.0.1:(\d+)","protocol":"(\w+)"', self.text()))
        ports = {kind: int(port) for port, kind in ports.items()}
        self.address, self.admin = ("127.0.0.1", ports["http"]), ("127.0.0.1", ports["admin"])

    async def end(self, number=signal.SIGKILL, seconds=40):
        code = await super().end(number, seconds)
        if self.has_clock and self.popen is not None:
            # The library leaves them behind when its process is killed.
            for path in (f"/dev/shm/faketime_shm_{self.popen.pid}", f"/dev/shm/sem.faketime_sem_{self.popen.pid}"):
                if os.path.exists(path):
                    os.unlink(path)
        return code


class World:
    def __init__(self, folder, binary, topology, ledger):
        self.folder, self.ledger = folder, ledger
        self.troubles = model.Troubles()
        names = [f"gateway-{number + 1}" for number in range(3)]
        self.names = names
        self.postgres = Postgres(folder)
        self.redis = TOPOLOGIES[topology](folder, names)
        self.upstreams = [Process(f"{folder}/upstream-{number}") for number in range(UPSTREAMS)]
        self.database_links = [[Link(f"{name} to {node.folder.rsplit('/')[-1]}", self.postgres.socket(node))
                                for node in self.postgres.nodes] for name in names]
        self.upstream_links = [[Link(f"{name} to upstream {number}", f"{upstream.folder}/socket")
                                for number, upstream in enumerate(self.upstreams)] for name in names]
        self.binary, self.gateways = binary, []
        self.probe = None

    # MARK: start and end

    async def start(self):
        await asyncio.gather(self.postgres.start(), self.redis.start(),
                             *(self.start_upstream(upstream) for upstream in self.upstreams))
        for links in self.database_links + self.upstream_links:
            for link in links:
                await link.start()
        for number, name in enumerate(self.names):
            folder = f"{self.folder}/{name}"
            os.makedirs(folder)
            self.gateways.append(Gateway(folder, name, self.binary, self.settings(number), number == len(self.names) - 1))
        await asyncio.gather(*(gateway.start() for gateway in self.gateways))
        self.probe = Probe(self)

    async def start_upstream(self, upstream):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "upstream.py")
        upstream.launch([sys.executable, source, f"{upstream.folder}/socket", f"{upstream.folder}/record"])
        await upstream.wait_for("listening")

    def settings(self, number):
        databases = ",".join(f"127.0.0.1:{link.port}" for link in self.database_links[number])
        upstreams = " ".join(f"http://127.0.0.1:{link.port}" for link in self.upstream_links[number])
        lines = {
            "LISTEN": "127.0.0.1:0", "ADMIN_LISTEN": "127.0.0.1:0", "WORKERS": "2" if number == 0 else "1",
            "ADMIN_TOKEN": clients.ADMIN_TOKEN, "KEY_SECRET": "a secret that the gateways of the chaos suite share",
            "CONTRACTS": "dlauth@/ anonymous@/ password@/api/v1", "TRUSTED_PROXIES": "127.0.0.1/32", "SIGNUP_LIMIT": "100000/h",
            "CLOCK_SKEW": f"{model.SKEW:.0f}s", "ACCESS_TTL_ANONYMOUS": "30s", "DRAIN_TIMEOUT": "5s",
            "UPSTREAM_SERVICE": f"{upstreams} timeout=4s connect-timeout=1s retries=1 health=/healthz eject-after=2s",
            "ROUTE_ME": "GET /me upstream=service", "ROUTE_ORDERS": "POST /orders upstream=service",
            "ROUTE_PASSAGES": "GET /passages upstream=service filter=tier", "ROUTE_PREMIUM": "GET /premium upstream=service tier=premium",
        }
        for path, (rate, burst) in LIMITS.items():
            lease = "+lease" if path == LEASED else ""
            lines["ROUTE_" + path.rsplit("/")[-1].upper()] = f"GET {path} upstream=service limit={rate}/s+burst={burst}{lease}"
        return [f'TOLLGATE_{name}="{value}"' for name, value in lines.items()] + [
            f'DATABASE_URL="postgres://tollgate@{databases}/accounts"', f'REDIS_URL="{self.redis.url(number)}"']

    async def end(self):
        """Ends every process and link; returns complaints about gateways that did not end well."""
        faults = []
        for gateway in self.gateways:
            if gateway.is_running:
                code = await gateway.end(signal.SIGTERM)
                if code != 0:
                    faults.append(f"{gateway.name} ended with {code} after SIGTERM")
        await self.kill()
        return faults

    async def kill(self):
        for process in self.gateways + self.upstreams:
            await process.end(signal.SIGKILL)
        await self.redis.end()
        await self.postgres.end()
        for link in [link for links in self.database_links + self.upstream_links for link in links] + self.redis.links:
            if link.port:
                await link.stop()

    # MARK: whether it is whole

    async def recovered(self, seconds):
        """Waits until every gateway is ready and serves every kind of request. Returns why not if it takes longer, and what it
        has waited for last."""
        until, last = time.monotonic() + seconds, None
        while True:
            reason = await self.probe.fault()
            if reason is None or time.monotonic() > until:
                return reason, last
            last = reason
            await asyncio.sleep(0.05)

    def dead(self):
        """A gateway that has ended without having been told to."""
        return next((f"{gateway.name} has ended by itself: {gateway.text()[-1500:]}" for gateway in self.gateways
                     if not gateway.is_running), None)

    def recorded(self, kind):
        """What the upstreams have recorded: (name, user, time)."""
        for upstream in self.upstreams:
            path = f"{upstream.folder}/record"
            if os.path.exists(path):
                with open(path) as file:
                    for line in file:
                        words = line.split()
                        if len(words) == 4 and words[0] == kind:
                            yield words[1], words[2], float(words[3])


class Probe:
    """Asks every gateway for one of each, as a user who is there from the beginning."""

    def __init__(self, world):
        self.world, self.access, self.refresh = world, None, None
        self.connections = {}
        self.orders = 0

    async def ask(self, gateway, method, target, fields=None, body=None, admin=False):
        connection = self.connections.setdefault((gateway.name, admin), Connection())
        address = gateway.admin if admin else gateway.address
        return await connection.ask(address, method, target, fields, body and json.dumps(body).encode(), 4)

    async def fault(self):
        """The first thing that is not as it should be, or None."""
        if dead := self.world.dead():
            return dead
        for gateway in self.world.gateways:
            what = "no answer"
            try:
                if what := await self.fault_of(gateway):
                    return f"{gateway.name}: {what}"
            except NoAnswer as failure:
                return f"{gateway.name}: {failure}"
        return None

    async def fault_of(self, gateway):
        ready = await self.ask(gateway, "GET", "/readyz", admin=True)
        checks = [check for check in ready.json().get("checks", []) if check["status"] != "ready"]
        if ready.status != 200 or checks:
            return f"/readyz {ready.status} {checks}"
        if self.access is None:
            opened = await self.ask(gateway, "POST", "/auth/signup", body={"email": "probe@example.org", "password": clients.PASSWORD})
            if opened.status != 200:
                return f"sign-up {opened.status}"
            self.access, self.refresh = clients.CONTRACTS[0].pair(opened)
        refreshed = await self.ask(gateway, "POST", "/auth/token/refresh", body={"refresh_token": self.refresh})
        if refreshed.status != 200:
            return f"a refresh is answered {refreshed.status}"
        self.access, self.refresh = clients.CONTRACTS[0].pair(refreshed)
        fields = {"Authorization": f"Bearer {self.access}"}
        for target in ["/me"] * UPSTREAMS + ["/passages"]:
            answer = await self.ask(gateway, "GET", target, fields)
            if answer.status != 200:
                return f"{target} is answered {answer.status}"
        return None
