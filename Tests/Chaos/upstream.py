"""The service behind the gateways, a program: `upstream.py SOCKET RECORD`.

It says whom it was told it serves, and records each order and each counted request as a line of RECORD before it answers.
While the file RECORD.torn exists, it ends every answer but those of health checks in the middle.
"""
import asyncio
import json
import os
import sys
import time

IDENTITY = ("x-user-id", "x-session-id", "x-user-tier", "x-user-premium", "x-user-email", "x-actor-id")
PASSAGES = [{"id": number, "tier": "premium" if number % 2 else "free", "text": f"{'premium' if number % 2 else 'open'}-text-{number}"}
            for number in range(6)]


class Server(asyncio.Protocol):
    record = torn = None

    def connection_made(self, transport):
        self.transport, self.input = transport, b""

    def data_received(self, data):
        self.input += data
        while True:
            end = self.input.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = self.input[:end].decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            length = end + 4 + int(fields.get("content-length", "0"))
            if len(self.input) < length:
                return
            body, self.input = self.input[end + 4:length], self.input[length:]
            method, target = lines[0].split(" ")[:2]
            self.answer(method, target, fields, body)

    def answer(self, method, target, fields, body):
        path, _, query = target.partition("?")
        said = {"path": path, "query": query, "identity": {name: fields[name] for name in IDENTITY if name in fields}}
        user = fields.get("x-user-id", "none")
        if path == "/orders":
            said["order"] = json.loads(body)["order"]
            self.note("order", said["order"], user)
        elif path.startswith("/counted/"):
            self.note("counted", path, user)
        elif path == "/passages":
            said["results"] = PASSAGES
        content = json.dumps(said).encode()
        answer = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        if path != "/healthz" and os.path.exists(self.torn):
            self.transport.write(answer[:len(answer) // 2])
            return self.transport.close()
        self.transport.write(answer)

    def note(self, kind, name, user):
        os.write(self.record, f"{kind} {name} {user} {time.time():.6f}\n".encode())


async def main(socket, record):
    Server.record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    Server.torn = record + ".torn"
    if os.path.exists(socket):
        os.unlink(socket)
    server = await asyncio.get_running_loop().create_unix_server(Server, socket)
    print("listening", flush=True)
    await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
