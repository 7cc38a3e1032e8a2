"""HTTP/1.1 client of the suite: one request at a time over a connection that is kept open."""
import asyncio
import json


class NoAnswer(Exception):
    """The connection failed, or the answer was late or cut off: whether the request took effect is unknown."""


class Answer:
    """A complete answer."""

    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    @property
    def request_id(self):
        return self.fields.get("x-request-id", "none")

    def json(self):
        """The body, or an empty object if it is no JSON object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def code(self):
        """The code of a refusal, in capitals, in whichever envelope of the contracts."""
        error = self.json().get("error")
        code = error.get("code") if isinstance(error, dict) else self.json().get("code", error)
        return str(code).upper()


class Connection:
    """A connection to one address; it is opened when needed, and dropped after any failure."""

    def __init__(self):
        self.address = self.reader = self.writer = None

    async def ask(self, address, method, target, fields=None, body=None, seconds=8.0):
        """Sends one request and returns its answer; raises NoAnswer."""
        try:
            return await asyncio.wait_for(self._ask(address, method, target, fields or {}, body), seconds)
        except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as failure:
            self.close()
            raise NoAnswer(f"{type(failure).__name__} {failure}".strip()) from None
        except (TimeoutError, asyncio.TimeoutError):
            self.close()
            raise NoAnswer(f"none within {seconds} s") from None

    def close(self):
        if self.writer is not None:
            self.writer.transport.abort()
        self.address = self.reader = self.writer = None

    async def _ask(self, address, method, target, fields, body):
        # A connection that the gateway has closed while it was idle is no failure.
        if self.writer is None or self.address != address or self.reader.at_eof():
            self.close()
            self.reader, self.writer = await asyncio.open_connection(*address)
            self.address = address
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"] + [f"{name}: {value}" for name, value in fields.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write("\r\n".join(lines + ["", ""]).encode() + (body or b""))
        status, answered = await self._head()
        content = await self._content(answered)
        if answered.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, answered, content)

    async def _head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {}
        for line in head[1:]:
            if line:
                name, _, value = line.partition(":")
                fields[name.lower()] = value.strip()
        return int(head[0].split(" ")[1]), fields

    async def _content(self, fields):
        if fields.get("transfer-encoding", "").lower() != "chunked":
            return await self.reader.readexactly(int(fields.get("content-length", "0")))
        content = b""
        while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
            content += (await self.reader.readexactly(size + 2))[:-2]
        while await self.reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return content
