"""The Redis of the gateways in three topologies, each with the faults that it can have."""
import asyncio
import contextlib
import signal

from links import BusLink, Link
from processes import SetupError, Process, free_port, run


class Server(Process):
    """A redis-server that keeps nothing on disk."""

    def __init__(self, folder, options, port=0):
        super().__init__(folder)
        self.options, self.port = options, port

    async def start(self):
        self.launch(["redis-server", "--save", "", "--appendonly", "no", "--dir", self.folder] + self.options)
        await self.wait_for("eady to accept connections")

    async def ask(self, *words):
        where = ["-p", str(self.port)] if self.port else ["-s", f"{self.folder}/socket"]
        return await run("redis-cli", *where, *words)


class Console:
    """A connection to a server, for many commands in a row: to start redis-cli for each would hold up all links of the suite."""

    def __init__(self, server):
        self.server = server

    async def __aenter__(self):
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        return self

    async def __aexit__(self, *_):
        self._writer.close()

    async def ask(self, *words):
        """The answer, a text or a list; raises SetupError if it is an error."""
        self._writer.write((" ".join(str(word) for word in words) + "\r\n").encode())
        return await self._answer(words)

    async def _answer(self, words):
        line = (await self._reader.readline()).decode().rstrip()
        kind, text = line[:1], line[1:]
        if kind == "*":
            return [await self._answer(words) for _ in range(int(text))]
        if kind == "$":
            return (await self._reader.readexactly(int(text) + 2)).decode()[:-2]
        if kind not in ("+", ":"):
            raise SetupError(f"{self.server.folder}: {' '.join(str(word) for word in words)} is answered {line or 'not'}")
        return text


class Single:
    """One server, behind a link for each gateway."""

    name = "single"
    has_replicas = False

    def __init__(self, folder, gateways):
        self.servers = [Server(f"{folder}/redis", ["--port", "0", "--unixsocket", f"{folder}/redis/socket"])]
        self.links = [Link(f"redis of {gateway}", f"{folder}/redis/socket") for gateway in gateways]

    async def start(self):
        await self.servers[0].start()
        for link in self.links:
            await link.start()

    def url(self, gateway):
        return f"redis://127.0.0.1:{self.links[gateway].port}"

    async def master(self, pick):
        return self.servers[0]

    def link(self, server, pick):
        """One of the links by which gateways reach a server."""
        return self.links[pick % len(self.links)]

    async def fail_over(self, master):
        """The lost server's place is taken, in whatever way the topology has."""
        await master.start()

    async def rejoin(self, master):
        pass

    async def settle(self):
        pass

    async def end(self):
        for server in self.servers:
            await server.end(signal.SIGKILL)


class Cluster:
    """Three masters with a replica each. Gateways, replicas and the other nodes come through the links that a node announces."""

    name = "cluster"
    has_replicas = True

    def __init__(self, folder, gateways):
        self.servers, self.links, self.bus_links = [], [], []
        for number in range(6):
            port, bus = free_port(), free_port()
            options = ["--port", str(port), "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", str(bus),
                       "--cluster-node-timeout", "1500", "--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor",
                       "0", "--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
            self.servers.append(Server(f"{folder}/redis-{number}", options, port))
            self.links.append(Link(f"redis {number}", ("127.0.0.1", port)))
            self.bus_links.append(BusLink(f"bus of redis {number}", ("127.0.0.1", bus)))

    async def start(self):
        for server, link, bus in zip(self.servers, self.links, self.bus_links):
            await link.start()
            await bus.start()
            server.options += ["--cluster-announce-port", str(link.port), "--cluster-announce-bus-port", str(bus.port)]
            await server.start()
            server.id = await server.ask("cluster", "myid")
        for link, bus in zip(self.links[1:], self.bus_links[1:]):
            await self.servers[0].ask("cluster", "meet", "127.0.0.1", str(link.port), str(bus.port))
        for number, (first, last) in enumerate([(0, 5460), (5461, 10922), (10923, 16383)]):
            await self.servers[number].ask("cluster", "addslotsrange", str(first), str(last))
        for number in range(3):
            master = await self.servers[number].ask("cluster", "myid")
            await self._until(3 + number, lambda text: master in text, "nodes")
            await self.servers[3 + number].ask("cluster", "replicate", master)
        await self.settle()

    async def _until(self, number, fits, *words):
        for _ in range(600):
            text = await self.servers[number].ask("cluster", *words)
            if fits(text):
                return
            await asyncio.sleep(0.05)
        raise SetupError(f"{self.servers[number].folder}: {text}")

    async def settle(self):
        """Waits until all nodes are known as whole, and each replica follows its master."""
        for number in range(6):
            await self._until(number, lambda text: "cluster_state:ok" in text and "cluster_slots_ok:16384" in text
                              and "cluster_known_nodes:6" in text, "info")
            await self._until(number, lambda text: text.count(" connected") == 6 and "fail" not in text.replace("nofailover", ""), "nodes")
        for server in self.servers:
            for _ in range(600):
                text = await server.ask("info", "replication")
                if "role:master" in text or "master_link_status:up" in text:
                    break
                await asyncio.sleep(0.05)

    def url(self, gateway):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{link.port}" for link in self.links[:3])

    async def masters(self):
        return [server for server in self.servers if server.is_running and "role:master" in await server.ask("info", "replication")]

    async def master(self, pick):
        masters = await self.masters()
        return masters[pick % len(masters)]

    def link(self, server, pick):
        return self.links[self.servers.index(server)]

    async def fail_over(self, master):
        """Waits until a replica has taken the lost master's place."""
        others = [server for server in self.servers if server is not master]
        for _ in range(600):
            texts = [await server.ask("cluster", "info") for server in others if server.is_running]
            masters = [server for server in others if "role:master" in await server.ask("info", "replication")]
            if len(masters) == 3 and all("cluster_slots_ok:16384" in text for text in texts):
                return
            await asyncio.sleep(0.05)
        raise SetupError("no replica took the place of a lost master")

    async def rejoin(self, master):
        if not master.is_running:
            await master.start()

    def part(self, server):
        """Cuts a node off from the others: none hears of the other side."""
        for other, bus in zip(self.servers, self.bus_links):
            bus.part([node.id for node in self.servers if node is not server] if other is server else [server.id])

    def join(self):
        for bus in self.bus_links:
            bus.heal()

    # MARK: resharding

    async def move_slots(self, pick, until):
        """Moves slots with keys from each master to the next, round and round, until the event; returns how many were moved."""
        moved, masters = 0, await self.masters()
        masters = masters[pick % len(masters):] + masters[:pick % len(masters)]
        async with contextlib.AsyncExitStack() as stack:
            consoles = [await stack.enter_async_context(Console(server)) for server in masters]
            while not until.is_set():
                source, target, *others = consoles
                consoles = consoles[1:] + consoles[:1]
                tags = {key.partition("}")[0] + "}" for key in await source.ask("keys", "tollgate:{*}*")}
                for tag in sorted(tags):
                    if not until.is_set():
                        await self.move_slot(await source.ask("cluster", "keyslot", tag), source, target, others)
                        moved += 1
                await asyncio.sleep(0.05)
        return moved

    async def move_slot(self, slot, source, target, others):
        """Moves a slot key by key under the requests that use it, in the order of `redis-cli --cluster reshard`."""
        here, there = await source.ask("cluster", "myid"), await target.ask("cluster", "myid")
        await target.ask("cluster", "setslot", slot, "importing", here)
        await source.ask("cluster", "setslot", slot, "migrating", there)
        while keys := await source.ask("cluster", "getkeysinslot", slot, 1):
            await source.ask("migrate", "127.0.0.1", target.server.port, keys[0], 0, 5000)
            await asyncio.sleep(0.02)
        for console in [target, source] + others:
            await console.ask("cluster", "setslot", slot, "node", there)

    async def agree(self):
        """Waits until all nodes name the same masters for all slots."""
        for _ in range(600):
            maps = set()
            for server in self.servers:
                shards = (line.split() for line in (await server.ask("cluster", "nodes")).splitlines())
                maps.add(tuple(sorted((words[0], *words[8:]) for words in shards if "master" in words[2])))
            if len(maps) == 1:
                return
            await asyncio.sleep(0.05)
        raise SetupError(f"the nodes do not agree about the slots: {maps}")

    async def end(self):
        for server in self.servers:
            await server.end(signal.SIGKILL)
        for bus in self.bus_links:
            if bus.port:
                await bus.stop()


class Sentinel:
    """A master with two replicas, watched by three sentinels, all through links."""

    name = "sentinel"
    has_replicas = True

    def __init__(self, folder, gateways):
        self.servers, self.links, self.sentinels = [], [], []
        for number in range(3):
            port = free_port()
            server = Server(f"{folder}/redis-{number}", ["--port", str(port), "--repl-diskless-sync-delay", "0",
                                                         "--replica-announce-ip", "127.0.0.1"], port)
            self.servers.append(server)
            self.links.append(Link(f"redis {number}", ("127.0.0.1", port)))
            self.sentinels.append(Server(f"{folder}/sentinel-{number}", [], free_port()))

    async def start(self):
        for number, (server, link) in enumerate(zip(self.servers, self.links)):
            await link.start()
            server.options += ["--replica-announce-port", str(link.port)]
            await server.start()
            if number > 0:
                await server.ask("replicaof", "127.0.0.1", str(self.links[0].port))
        for sentinel in self.sentinels:
            with open(f"{sentinel.folder}/sentinel.conf", "w") as file:
                file.write(f"port {sentinel.port}\ndir {sentinel.folder}\n"
                           f"sentinel monitor limits 127.0.0.1 {self.links[0].port} 2\n"
                           "sentinel down-after-milliseconds limits 1000\nsentinel failover-timeout limits 3000\n")
            self.launch_sentinel(sentinel)
            await sentinel.wait_for("+monitor master")
        await self.settle()

    def launch_sentinel(self, sentinel):
        sentinel.launch(["redis-server", f"{sentinel.folder}/sentinel.conf", "--sentinel"])

    async def address(self):
        """The port of the master that the first sentinel knows."""
        return int((await self.sentinels[0].ask("sentinel", "get-master-addr-by-name", "limits")).split()[1])

    async def settle(self):
        """Waits until every sentinel knows the others, and a replica follows; a server that is back needs ten seconds for it."""
        for _ in range(1200):
            texts = [await sentinel.ask("info", "sentinel") for sentinel in self.sentinels]
            roles = [await server.ask("info", "replication") for server in self.servers]
            if all("status=ok" in text and "slaves=2,sentinels=3" in text for text in texts) \
                    and any("master_link_status:up" in role for role in roles):
                return
            await asyncio.sleep(0.05)
        raise SetupError(f"the sentinels do not agree: {texts}")

    def url(self, gateway):
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels) + "/limits"

    async def master(self, pick):
        port = await self.address()
        return next(server for server, link in zip(self.servers, self.links) if link.port == port)

    def link(self, server, pick):
        return self.links[self.servers.index(server)]

    async def fail_over(self, master):
        """Waits until another server is the master."""
        lost = self.link(master, 0).port
        for _ in range(600):
            if await self.address() != lost:
                return
            await asyncio.sleep(0.05)
        raise SetupError("no replica took the place of the lost master")

    async def rejoin(self, master):
        if not master.is_running:
            await master.start()

    async def end(self):
        for server in self.sentinels + self.servers:
            await server.end(signal.SIGKILL)


TOPOLOGIES = {topology.name: topology for topology in (Single, Cluster, Sentinel)}
