"""TCP proxies between the parts: they can be cut, fall silent, and delay."""
import asyncio
import random


class Link:
    """A proxy from a port of its own to `target`, the path of a Unix socket or a (host, port).

    - `cut`: connections are reset, new ones too.
    - `hole`: bytes stand still in both directions and arrive once it ends, as after a network partition.
    - `slow`: every piece is late, by seconds between two numbers.
    """

    def __init__(self, name, target):
        self.name, self.target = name, target
        self.delay = None
        self._is_cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers = set()
        self._tasks = set()
        self._server = None
        self.port = 0

    async def start(self):
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def cut(self):
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def hole(self):
        self._flows.clear()

    def slow(self, seconds, most=None):
        self.delay = (seconds, most or seconds)

    def heal(self):
        self._is_cut = False
        self.delay = None
        self._flows.set()

    async def stop(self):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        self.cut()

    async def _accepted(self, reader, writer):
        if self._is_cut:
            return writer.transport.abort()
        task = asyncio.current_task()
        self._tasks.add(task)
        self._writers.add(writer)
        onward = None
        try:
            await self._flows.wait()
            try:
                back, onward = await self._connect()
            except OSError:
                return writer.transport.abort()
            self._writers.add(onward)
            if self._is_cut or not await self._begins(reader, writer, onward):
                return
            await asyncio.gather(self._pump(reader, onward), self._pump(back, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, onward):
                if end is not None:
                    end.transport.abort()
                    self._writers.discard(end)
            self._tasks.discard(task)

    async def _begins(self, reader, writer, onward):
        """Whether a new connection may go on."""
        return True

    def _connect(self):
        if isinstance(self.target, str):
            return asyncio.open_unix_connection(self.target)
        return asyncio.open_connection(*self.target)

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            if self.delay:
                await asyncio.sleep(random.uniform(*self.delay))
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        await self._flows.wait()
        if writer.can_write_eof():
            writer.write_eof()


class BusLink(Link):
    """A proxy to the bus port of a node of a Redis Cluster. It tells the other nodes' connections apart, by the sender's id in the
    header of the first message, and `part` cuts those of some nodes alone."""

    HEADER, SENDER = 80, slice(40, 80)

    def __init__(self, name, target):
        super().__init__(name, target)
        self._parted = frozenset()
        self._senders = {}

    def part(self, nodes):
        self._parted = frozenset(nodes)
        for writer, sender in list(self._senders.items()):
            if sender in self._parted:
                writer.transport.abort()

    def heal(self):
        super().heal()
        self._parted = frozenset()

    async def _begins(self, reader, writer, onward):
        try:
            header = await reader.readexactly(self.HEADER)
        except asyncio.IncompleteReadError:
            return False
        sender = header[self.SENDER].decode()
        if sender in self._parted:
            return False
        self._senders = {writer: sender for writer, sender in self._senders.items() if not writer.is_closing()}
        self._senders[writer] = sender
        onward.write(header)
        return True
