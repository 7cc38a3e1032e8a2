import Foundation

/// Programs with Debian's `websockets` for Python, at both ends of the gateway.
enum WebSocketPeers {
    /// Echoes messages; answers `who` with the user, the chosen subprotocol and the offered ones, `large N` with N bytes, `close` with 4000.
    static func server() throws -> (process: Subprocess, url: String) {
        let process = try Subprocess(
            python,
            [
                "-c",
                """
                import asyncio, websockets
                async def serve(socket):
                    async for message in socket:
                        fields = socket.request_headers
                        if message == "who":
                            await socket.send(" ".join([fields.get("X-User-Id", "-"), socket.subprotocol or "-", fields.get("Sec-WebSocket-Protocol", "-"), fields.get("Authorization", "-")]))
                        elif message == "close": await socket.close(4000, "enough")
                        elif isinstance(message, str) and message.startswith("large "): await socket.send(bytes(int(message[6:])))
                        else: await socket.send(message)
                async def main():
                    options = dict(subprotocols=["chat"], max_size=None, compression=None)
                    async with websockets.serve(serve, "127.0.0.1", 0, **options) as server:
                        print(server.sockets[0].getsockname()[1], flush=True)
                        await asyncio.Future()
                asyncio.run(main())
                """,
            ])
        let lines = try process.output.wait(for: "the server's port", seconds: 60) { !$0.isEmpty }
        guard let port = Int(lines[0]) else { throw Fault("no port: \(lines) \(process.complaints.now)") }
        return (process, "http://127.0.0.1:\(port)")
    }

    /// Debian's own Python, which has Debian's packages.
    private static let python = "/usr/bin/python3"

    /// Starts a client; `body` is Python in an async function, with `url` as a variable.
    static func startClient(_ url: String, _ body: String) throws -> Subprocess {
        let lines = body.split(separator: "\n", omittingEmptySubsequences: false).map { "    " + $0 }.joined(separator: "\n")
        return try Subprocess(
            python, ["-c", "import asyncio, sys, websockets\nurl = sys.argv[1]\nasync def main():\n\(lines)\nasyncio.run(main())", url])
    }

    /// Runs a client to its end; what it prints.
    static func client(_ url: String, _ body: String) throws -> [String] {
        let process = try startClient(url, body)
        guard try process.exitCode(seconds: 60) == 0 else { throw Fault("the client fails: \(process.complaints.now.suffix(8))") }
        return process.output.now
    }
}
