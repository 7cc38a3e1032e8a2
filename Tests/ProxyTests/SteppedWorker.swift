import Gate
import Glibc
@testable import Limits
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// A worker that the test turns itself, on a clock that the test moves: a minute takes no time, and what the test has made
/// ready comes in one turn. Between turns a busy machine may take any time; the clock leaves it out.
struct SteppedWorker: ~Copyable {
    var worker: Worker
    private var scratch: Scratch
    private let mailbox: Mailbox<WorkerMessage>
    let address: SocketAddress
    /// The time of its clock, and the machine's at the latest turn.
    private var moment: Moment
    private var looked: MonotonicTime

    init(
        _ rules: [RouteRule], upstreams: [UpstreamSnapshot], settings: WorkerSettings = WorkerSettings(), allowsHTTP2: Bool = false,
        announces: Bool = false, local: [LocalHandler] = [], shared: consuming SharedCounting? = nil, proxies: [CIDR] = [],
        makeRoom: @escaping @Sendable (String, Int) -> Bool = { _, _ in false },
        sessionExpiry: @escaping @Sendable (UUID, @escaping @Sendable (Int64?) -> Void) -> Void = { _, answer in answer(nil) },
        services adjust: (inout WorkerServices) -> Void = { _ in }
    ) throws {
        let socket = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let address = try socket.localAddress()
        let waker = try Waker()
        let mailbox = Mailbox<WorkerMessage>(waker: waker)
        var services = WorkerServices(admin: RunningWorker.admin, local: local)
        services.makeRoom = makeRoom
        services.sessionExpiry = sessionExpiry
        adjust(&services)
        let worker = try Worker(
            for: rules, upstreams: upstreams, settings: settings, waker: waker, mailbox: mailbox, services: services,
            listeners: [Listener(socket: socket, announces: announces, allowsHTTP2: allowsHTTP2)], shared: shared, proxies: proxies)
        self.worker = worker
        self.mailbox = mailbox
        self.address = address
        scratch = Scratch()
        moment = EventLoop.now()
        looked = moment.monotonic
    }

    /// One that forwards everything to `upstream`.
    init(
        forwardingTo upstream: Socket, settings: WorkerSettings = WorkerSettings(), takesWebSockets: Bool = false, allowsHTTP2: Bool = false
    ) throws {
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        rule.takesWebSockets = takesWebSockets
        // So that calls may come over HTTP/1.1.
        rule.upstreamSpeaksHTTP2 = true
        try self.init(
            [rule], upstreams: [RunningWorker.upstream("back", [upstream.localAddress()])], settings: settings, allowsHTTP2: allowsHTTP2)
    }

    /// An open WebSocket, with further fields in its handshake: the client's end and the upstream's.
    mutating func openWebSocket(to upstream: Socket, fields: String = "") throws -> (client: Line, upstream: Line) {
        let client = try Line(to: address)
        try client.send(WebSocketTests.handshake + fields + "\r\n")
        let server = try accept(upstream)
        try turn(untilReadable: server)
        _ = try server.receive(until: "\r\n\r\n")
        try server.send(WebSocketTests.acceptance + "\r\n")
        try turn(untilReadable: client)
        #expect(try client.receiveHead().status == 101)
        return (client, server)
    }

    /// One turn, with what is ready.
    mutating func turn(waiting milliseconds: Int32 = 0) {
        let ready = worker.loop.wait(milliseconds: milliseconds)
        let now = EventLoop.now().monotonic
        // No more than the wait and what a turn takes.
        go(on: min(now.nanoseconds(since: looked), UInt64(milliseconds + 1) * 1_000_000))
        looked = now
        worker.work(on: ready, at: moment, &scratch)
    }

    private mutating func go(on nanoseconds: UInt64) {
        moment.monotonic = MonotonicTime(nanoseconds: moment.monotonic.nanoseconds + nanoseconds)
        moment.wall = WallTime(microseconds: moment.wall.microseconds + Int64(nanoseconds / 1_000))
    }

    /// Turns until `line` has something to read, for thirty seconds at most.
    mutating func turn(untilReadable line: Line) throws {
        try turn { _ in line.isReady(milliseconds: 0) }
    }

    /// Turns until the worker is so.
    mutating func turn(until isSo: (borrowing Worker) -> Bool) throws {
        for _ in 0..<3_000 {
            if isSo(worker) { return }
            turn(waiting: 10)
        }
        throw TestFault("nothing came")
    }

    /// Moves its clock, without a turn.
    mutating func advance(milliseconds: UInt64) { go(on: milliseconds * 1_000_000) }

    /// Lets so much time go by, and does what is due then.
    mutating func pass(milliseconds: UInt64) {
        advance(milliseconds: milliseconds)
        turn()
        // A timer that fired may set one that is due at once.
        turn()
    }

    /// The next connection of `listener`, which stands for an upstream.
    mutating func accept(_ listener: Socket) throws -> Line {
        try turn(untilReadable: Line(listener))
        return try Line(acceptedFrom: listener)
    }

    /// One request of `client` and its answer `ok` by the upstream at `line`, or at the next connection of `listener`.
    mutating func exchange(_ client: Line, over line: Line? = nil, _ listener: Socket) throws -> Line {
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try line ?? accept(listener)
        try turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        try upstream.send(ExchangeTests.ok)
        try turn(untilReadable: client)
        _ = try client.receiveMessage()
        return upstream
    }

    /// All bytes that `line` receives up to its end.
    mutating func takeAll(_ line: Line) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            try turn(untilReadable: line)
            guard let more = try line.receive() else { return bytes }
            bytes += more
        }
    }

    func post(_ message: WorkerMessage) { mailbox.post(message) }

    mutating func end() {
        post(.drain(within: 0))
        join()
    }

    /// Turns until it has ended.
    mutating func join() { while worker.phase != .ended { turn(waiting: 10) } }
}
