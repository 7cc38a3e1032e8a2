import Glibc
import Synchronization
import System
import TestServers
import Testing
import Threads
import Transport
import Wire

@Suite struct SocketTests {
    @Test(arguments: ["127.0.0.1:0", "[::1]:0"])
    func `sent bytes are received`(_ text: String) throws {
        let (client, server) = try pair(text)
        defer {
            client.close()
            server.close()
        }
        try write(Array("hello".utf8), to: client)
        #expect(try read(server, 5) == Array("hello".utf8))
        try write(Array("and back".utf8), to: server)
        #expect(try read(client, 8) == Array("and back".utf8))
    }

    @Test func `an accepted connection knows its peer`() throws {
        let (listener, address) = try listenLocally()
        defer { listener.close() }
        let client = try connect(to: address)
        let (server, peer) = try accept(listener)
        defer {
            client.close()
            server.close()
        }
        #expect(peer == (try client.localAddress()))
        #expect(peer.ip == IPAddress(parsing: "127.0.0.1"))
        #expect(try server.localAddress() == address)
    }

    @Test func `loopback is not paced, whatever the system's default`() throws {
        let (client, server) = try pair()
        defer {
            client.close()
            server.close()
        }
        #expect(congestionControl(client) == "reno")
        #expect(congestionControl(server) == "reno")
    }

    private func congestionControl(_ socket: Socket) -> String {
        var name = [UInt8](repeating: 0, count: 16)
        var length = socklen_t(name.count)
        guard getsockopt(socket.descriptor, Int32(IPPROTO_TCP), TCP_CONGESTION, &name, &length) == 0 else { return "" }
        return String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
    }

    @Test func `a unix socket serves its owner and group, and replaces a file without a listener`() throws {
        let folder = try Folder()
        let address = try #require(SocketAddress(parsing: "unix:" + folder.file("socket")))
        let first = try Socket.listen(on: address)
        #expect(try FileBytes.stamp(folder.file("socket")).mode == 0o660)
        #expect(throws: SystemFault("listen on \(address)", errno: EADDRINUSE)) { try Socket.listen(on: address) }
        first.close()

        let listener = try Socket.listen(on: address)
        defer { listener.close() }
        let client = try connect(to: address)
        let (server, peer) = try accept(listener)
        defer {
            client.close()
            server.close()
        }
        #expect(peer == .unix(""))
        try write([1, 2, 3], to: client)
        #expect(try read(server, 3) == [1, 2, 3])
    }

    @Test func `a unix listener leaves a file that is no socket alone`() throws {
        let folder = try Folder()
        try FileBytes.write([7], to: folder.file("data"))
        let address = try #require(SocketAddress(parsing: "unix:" + folder.file("data")))
        #expect(throws: SystemFault.self) { try Socket.listen(on: address) }
        #expect(try FileBytes.read(folder.file("data"), limit: 10) == [7])
    }

    @Test func `a unix name in the abstract space needs no file`() throws {
        let address = try #require(SocketAddress(parsing: "unix:@transport-test-\(getpid())"))
        let listener = try Socket.listen(on: address)
        defer { listener.close() }
        #expect(try listener.localAddress() == address)
        let client = try connect(to: address)
        client.close()
    }

    @Test func `a receiver that does not read holds the sender back`() throws {
        let (client, server) = try pair()
        defer {
            client.close()
            server.close()
        }
        let block = [UInt8](repeating: 7, count: 65536)
        var sent = 0
        var outcome = IOOutcome.done(0)
        while case .done(let count) = outcome {
            sent += count
            outcome = client.send(block.rawBytes)
        }
        #expect(outcome == .wouldBlock)
        #expect(try read(server, sent).count == sent)
        #expect(wait(client, for: POLLOUT))
    }

    @Test func `nothing to read is no end`() throws {
        let (client, server) = try pair()
        defer {
            client.close()
            server.close()
        }
        var buffer = ByteBuffer()
        #expect(server.receive(into: &buffer, upTo: 100) == .wouldBlock)
        #expect(server.receive(into: &buffer, upTo: 0) == .done(0))
        let count = buffer.count
        #expect(count == 0)
    }

    @Test func `after its end of stream a socket still receives`() throws {
        let (client, server) = try pair()
        defer {
            client.close()
            server.close()
        }
        try write([1], to: client)
        client.shutdownWrite()
        #expect(try read(server, 1) == [1])
        #expect(wait(server, for: POLLIN))
        var buffer = ByteBuffer()
        #expect(server.receive(into: &buffer, upTo: 10) == .closed)
        try write([2], to: server)
        #expect(try read(client, 1) == [2])
    }

    @Test func `an aborted connection is an error at its peer, and a write to it does not end the process`() throws {
        let (client, server) = try pair()
        defer { client.close() }
        server.abort()
        #expect(wait(client, for: POLLIN))
        var buffer = ByteBuffer()
        #expect(client.receive(into: &buffer, upTo: 10) == .failed(ECONNRESET))
        let bytes: [UInt8] = [1]
        #expect(client.send(bytes.rawBytes) == .failed(EPIPE))
    }

    @Test func `a refused connection names the address`() throws {
        let port = try HeldPort()
        let address = try #require(SocketAddress(parsing: "127.0.0.1:\(port.number)"))
        switch Socket.connect(to: address) {
        case .connected: Issue.record("nobody listens")
        case .inProgress(let socket):
            defer { socket.close() }
            #expect(wait(socket, for: POLLOUT))
            #expect(socket.takeError() == ECONNREFUSED)
        case .failed(let fault):
            #expect(fault.description == "cannot connect to \(address): connection refused")
        }
        withExtendedLifetime(port) {}
    }

    @Test func `listeners of several workers share an address`() throws {
        let (first, address) = try listenLocally()
        let second = try Socket.listen(on: address, joining: true)
        defer {
            first.close()
            second.close()
        }
        let client = try connect(to: address)
        defer { client.close() }
        var entries = [first, second].map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        #expect(poll(&entries, 2, 30_000) == 1)
    }

    /// Also by a process whose own listeners share it, and to a wildcard that contains it.
    @Test func `an address that another listens on is refused`() throws {
        for (first, second) in [
            ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0"), ("[::]", "[::1]"), ("[::1]", "[::]"),
        ] {
            let (listener, address) = try listenLocally("\(first):0")
            let joined = try Socket.listen(on: address, joining: true)
            defer {
                listener.close()
                joined.close()
            }
            let other = try #require(address.port.flatMap { SocketAddress(parsing: "\(second):\($0)") })
            #expect(throws: SystemFault("listen on \(other)", errno: EADDRINUSE)) { try Socket.listen(on: other) }
            // A listener of this process may be joined.
            try Socket.listen(on: other, joining: true).close()
        }
    }

    /// All of them find the file of a process that has ended.
    @Test func `of many that open one unix socket at the same time one has it`() throws {
        let folder = try Folder()
        let address = try #require(SocketAddress(parsing: "unix:" + folder.file("socket")))
        var rounds = 0
        for _ in 0..<50 {
            // A program that another test is about to start may hold a copy of the former listener for a moment.
            guard let former = try? Socket.listen(on: address) else { continue }
            former.close()
            let opened = Mutex<[Socket]>([])
            let threads = try (0..<4).map { _ in
                try WorkerThread(name: "opener") {
                    if let socket = try? Socket.listen(on: address) { opened.withLock { $0.append(socket) } }
                }
            }
            for thread in threads { thread.join() }
            let sockets = opened.withLock { $0 }
            #expect(sockets.count <= 1)
            rounds += sockets.count
            for socket in sockets { socket.close() }
        }
        #expect(rounds > 0)
    }

    @Test func `an address in use is a sentence`() throws {
        let (listener, address) = try listenLocally()
        defer { listener.close() }
        do {
            _ = try Socket.listen(on: address)
            Issue.record("the address is in use")
        } catch {
            #expect(error.description == "cannot listen on \(address): address already in use")
        }
    }
}
