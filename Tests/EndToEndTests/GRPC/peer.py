"""A gRPC service and a client of it, without generated code: messages are bytes as they are.

    peer.py serve             prints its port, serves until its input ends
    peer.py call ADDRESS      makes the call that its input describes, prints the outcome, both in JSON
"""

import json
import sys
import threading
import time
from concurrent import futures

import grpc

NAME = "test.Echo"
HEALTH = "grpc.health.v1.Health"


class Echo(grpc.GenericRpcHandler):
    """Each method is one of the four kinds of calls."""

    def __init__(self):
        self.serving = 1
        self.calls = 0

    def service(self, details):
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        methods = {
            f"/{NAME}/Unary": unary(self.unary),
            f"/{NAME}/Fail": unary(self.fail),
            f"/{NAME}/Slow": unary(self.slow),
            f"/{NAME}/ServerStream": grpc.unary_stream_rpc_method_handler(self.server_stream),
            f"/{NAME}/ClientStream": grpc.stream_unary_rpc_method_handler(self.client_stream),
            f"/{NAME}/Bidi": stream(self.bidi),
            f"/{NAME}/Endless": grpc.unary_stream_rpc_method_handler(self.endless),
            f"/{NAME}/Calls": unary(lambda request, context: b"%d" % self.calls),
            f"/{NAME}/SetHealth": unary(self.set_health),
            f"/{HEALTH}/Check": unary(self.check),
        }
        return methods.get(details.method)

    def unary(self, request, context):
        metadata = {key: value for key, value in context.invocation_metadata() if not key.endswith("-bin")}
        remaining = context.time_remaining()
        told = {"metadata": metadata, "remaining": remaining if remaining is not None and remaining < 1e6 else None}
        context.send_initial_metadata((("x-told", json.dumps(told)),))
        context.set_trailing_metadata((("x-end", "yes"), ("x-end-bin", bytes([0, 255, 10]))))
        return request[::-1]

    def fail(self, request, context):
        context.set_trailing_metadata((("x-end", "failed"),))
        context.abort(grpc.StatusCode.ABORTED, request.decode())

    def slow(self, request, context):
        self.calls += 1
        end = time.monotonic() + float(request)
        while context.is_active() and time.monotonic() < end:
            time.sleep(0.05)
        self.calls -= 1
        return b"late"

    def server_stream(self, request, context):
        for number in range(int(request)):
            yield b"%d" % number

    def client_stream(self, requests, context):
        return b",".join(requests)

    def bidi(self, requests, context):
        for request in requests:
            yield b"<" + request + b">"

    def endless(self, request, context):
        self.calls += 1
        yield b"first"
        while context.is_active():
            time.sleep(0.05)
        self.calls -= 1

    def set_health(self, request, context):
        self.serving = int(request)
        return b""

    def check(self, request, context):
        return bytes([8, self.serving])


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=32), handlers=(Echo(),), options=(("grpc.so_reuseport", 0),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None)


def call(address):
    """The input: method, kind, messages, timeout and metadata."""
    wanted = json.load(sys.stdin)
    outcome = {"code": "OK", "details": "", "messages": []}
    messages = [message.encode() for message in wanted.get("messages", [""])]
    options = {"timeout": wanted.get("timeout"), "metadata": tuple((key, value) for key, value in wanted.get("metadata", {}).items())}
    path = wanted["method"] if wanted["method"].startswith("/") else f"/{NAME}/{wanted['method']}"
    start = time.monotonic()
    with grpc.insecure_channel(address, options=(("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0))) as channel:
        running = None
        try:
            if wanted["kind"] == "unary":
                answer, running = channel.unary_unary(path).with_call(messages[0], **options)
                outcome["messages"] = [answer.decode()]
            elif wanted["kind"] == "cancelled":
                running = channel.stream_unary(path).future(forever())
                running.cancel()
            elif wanted["kind"] == "client":
                answer, running = channel.stream_unary(path).with_call(iter(messages), **options)
                outcome["messages"] = [answer.decode()]
            elif wanted["kind"] == "server":
                running = channel.unary_stream(path)(messages[0], **options)
                for answer in running:
                    outcome["messages"].append(answer.decode())
                    if len(outcome["messages"]) == 1:
                        print("first", file=sys.stderr, flush=True)
            else:
                talk(channel.stream_stream(path), messages, options, outcome, wanted["kind"] == "left")
        except grpc.RpcError as error:
            running = error
        if running is not None:
            outcome["code"] = running.code().name
            outcome["details"] = running.details() or ""
            outcome["initial"] = {key: str(value) for key, value in running.initial_metadata() or ()}
            outcome["trailing"] = {key: str(value) for key, value in running.trailing_metadata() or ()}
    outcome["seconds"] = time.monotonic() - start
    print(json.dumps(outcome))


def forever():
    """Messages of which none ever comes."""
    threading.Event().wait()
    yield b""


def talk(method, messages, options, outcome, leaves):
    """Sends each message when the answer to the one before has come. `leaves`: cancels behind the first answer."""
    answered = threading.Semaphore(1)

    def words():
        for message in messages:
            answered.acquire()
            yield message

    call = method(words(), **options)
    for answer in call:
        outcome["messages"].append(answer.decode())
        if leaves:
            call.cancel()
        answered.release()


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else call(sys.argv[2])
