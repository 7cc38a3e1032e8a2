import Gate
import Glibc
import Testing
import Transport
import Wire

@testable import Proxy

/// A worker that the test turns itself, on a clock that the test moves: a minute takes no time, and what the test has made
/// ready comes in one turn.
struct SteppedWorker: ~Copyable {
    var worker: Worker
    private var scratch: Scratch
    private let mailbox: Mailbox<WorkerMessage>
    let address: SocketAddress
    /// How far its clock is ahead of the machine's.
    private var ahead: UInt64

    init(
        _ rules: [RouteRule], upstreams: [UpstreamSnapshot], settings: WorkerSettings = WorkerSettings(),
        local: [LocalHandler] = [], shared: consuming SharedCounting? = nil,
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
            listeners: [Listener(socket: socket)], shared: shared)
        self.worker = worker
        self.mailbox = mailbox
        self.address = address
        scratch = Scratch()
        ahead = 0
    }

    /// One that forwards everything to `upstream`.
    init(forwardingTo upstream: Socket, settings: WorkerSettings = WorkerSettings()) throws {
        let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        try self.init([rule], upstreams: [RunningWorker.upstream("back", [upstream.localAddress()])], settings: settings)
    }

    /// One turn, with what is ready.
    mutating func turn(waiting milliseconds: Int32 = 0) {
        let ready = worker.loop.wait(milliseconds: milliseconds)
        var moment = EventLoop.now()
        moment.monotonic = moment.monotonic.advanced(milliseconds: ahead)
        moment.wall = WallTime(microseconds: moment.wall.microseconds + Int64(ahead) * 1_000)
        worker.work(on: ready, at: moment, &scratch)
    }

    /// Turns until `line` has something to read, for ten seconds at most.
    mutating func turn(untilReadable line: Line) throws {
        for _ in 0..<1_000 {
            if line.isReady(milliseconds: 0) { return }
            turn(waiting: 10)
        }
        throw TestFault("nothing came")
    }

    /// Moves its clock, without a turn.
    mutating func advance(milliseconds: UInt64) { ahead += milliseconds }

    /// Lets so much time go by, and does what is due then.
    mutating func pass(milliseconds: UInt64) {
        ahead += milliseconds
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

    func post(_ message: WorkerMessage) { mailbox.post(message) }

    mutating func end() {
        post(.drain(within: 0))
        while worker.phase != .ended { turn(waiting: 10) }
    }
}
