import Credentials
import Gate
import Glibc
import HTTP
@testable import Limits
import Synchronization
import Telemetry
import Threads
import Transport
import Wire

@testable import Proxy

/// The resources that a worker holds at the end of a turn.
struct Census: Equatable, Sendable {
    var clients = 0
    var exchanges = 0
    /// Connections to upstreams that are not idle.
    var busy = 0
    var idle = 0
    /// Idle connections as the lists of the addresses have them, and what the addresses count.
    var listed = 0
    var connections = 0
    var outstanding = 0
    /// Bytes that wait in connections.
    var bytes = 0
    var turns = 0

    /// Nothing is under way and all counts agree.
    var isAtRest: Bool {
        clients == 0 && exchanges == 0 && busy == 0 && outstanding == 0 && listed == idle && connections == idle
    }
}

/// The census of the latest turn, which threads share.
final class LatestCensus: Sendable {
    let value = Mutex(Census())
}

/// A worker on a thread of its own, with a listener on a free port.
final class RunningWorker: Sendable {
    let address: SocketAddress
    let adminAddress: SocketAddress
    /// Of forward-auth.
    let checkAddress: SocketAddress
    let mailbox: Mailbox<WorkerMessage>
    private let thread: WorkerThread
    private let latest: LatestCensus

    init(
        _ rules: [RouteRule], upstreams: [UpstreamSnapshot], settings: WorkerSettings = WorkerSettings(),
        local: [LocalHandler] = [], proxies: [CIDR] = [], counts: Int = 1_024, announces: Bool = false, tls: TLSServerContext? = nil,
        probes: Bool = false,
        lookUpUser: @escaping @Sendable (TokenUser) -> Void = { _ in },
        refresh: @escaping @Sendable (RefreshOrder, @escaping @Sendable (RefreshAnswer) -> Void) -> Void = { _, _ in },
        healthChanged: @escaping @Sendable (String, UpstreamAddress, Bool) -> Void = { _, _, _ in },
        bounds: LoadBounds = LoadBounds()
    ) throws {
        let loopback = SocketAddress(parsing: "127.0.0.1:0")!
        let socket = try Socket.listen(on: loopback)
        let admin = try Socket.listen(on: loopback)
        let check = try Socket.listen(on: loopback)
        address = try socket.localAddress()
        adminAddress = try admin.localAddress()
        checkAddress = try check.localAddress()
        let waker = try Waker()
        let mailbox = Mailbox<WorkerMessage>(waker: waker)
        self.mailbox = mailbox
        let latest = LatestCensus()
        self.latest = latest
        let listeners = [
            Listener(socket: socket, announces: announces, tls: tls), Listener(socket: admin, isAdmin: true),
            Listener(socket: check, isCheck: true),
        ]
        var declared = WorkerServices(admin: Self.admin, local: local)
        declared.lookUpUser = lookUpUser
        declared.refresh = refresh
        declared.healthChanged = healthChanged
        declared.probes = probes
        declared.bounds = bounds
        let services = declared
        thread = try WorkerThread(name: "worker") {
            do {
                var worker = try Worker(
                    for: rules, upstreams: upstreams, settings: settings, waker: waker, mailbox: mailbox, services: services,
                    listeners: listeners, proxies: proxies, counts: counts)
                var scratch = Scratch()
                while worker.phase != .ended {
                    worker.turn(&scratch)
                    worker.count(into: latest)
                }
            } catch {
                preconditionFailure("\(error)")
            }
        }
    }

    static let admin: LocalHandler = { _ in LocalResponse(status: 200, contentType: "text/plain", body: Array("well\n".utf8)) }

    /// An upstream called `name` at these addresses.
    static func upstream(
        _ name: String, _ addresses: [SocketAddress], _ change: (inout UpstreamSettings) -> Void = { _ in }
    ) -> UpstreamSnapshot {
        var settings = UpstreamSettings(name: name)
        // On a busy machine a test may take seconds to answer as the upstream.
        (settings.connectTimeout, settings.timeout) = (20_000, 20_000)
        change(&settings)
        return UpstreamSnapshot(settings: settings, addresses: addresses.map { UpstreamAddress(address: $0) })
    }

    var census: Census { latest.value.withLock { $0 } }

    /// The first census that satisfies `condition`; the last one if none does for thirty seconds.
    func census(where condition: (Census) -> Bool) -> Census {
        for _ in 0..<30_000 {
            let now = census
            if condition(now) { return now }
            usleep(1_000)
        }
        return census
    }

    /// Returns when a message that is posted now would have been read, and the turn that read it has been counted.
    func settle() {
        let (latest, read) = (latest, ReadingTurn())
        mailbox.post(.report { _ in read.number.withLock { $0 = latest.value.withLock { $0.turns } } })
        _ = census { census in read.number.withLock { $0.map { census.turns > $0 } ?? false } }
    }

    /// How many turns had ended when the worker read a message; nil until it has.
    private final class ReadingTurn: Sendable { let number = Mutex<Int?>(nil) }

    /// The samples of this metric.
    func samples(_ name: String) -> [String] {
        final class Page: Sendable { let text = Mutex("") }
        let page = Page()
        mailbox.post(
            .report { snapshot in
                let bytes = Exposition.render(
                    [snapshot], ProcessMetrics(build: BuildInfo(version: "", commit: "", swift: "")), at: WallTime(seconds: 0))
                page.text.withLock { $0 = String(decoding: bytes, as: UTF8.self) }
            })
        _ = census { _ in page.text.withLock { !$0.isEmpty } }
        return page.text.withLock { $0 }.split(separator: "\n").filter { $0.hasPrefix(name) }.map(String.init)
    }

    func stop() {
        mailbox.post(.drain(within: 0))
        thread.join()
    }

    func join() { thread.join() }
}

extension RunningWorker {
    /// Formats of refusals, as contracts have them.
    static let (nested, flat) = (Dialect(rawValue: 3), Dialect(rawValue: 4))
    static let envelopes = Envelopes([
        (nested, Envelope(name: "nested", object: "error", members: [("code", .code), ("message", .message)])),
        (flat, Envelope(name: "flat", members: [("error", .code), ("message", .message)])),
    ])
}

extension Worker {
    /// A worker without keys and log. `counts` is how many of a kind its limits have room for.
    init(
        for rules: [RouteRule], upstreams: [UpstreamSnapshot], settings: WorkerSettings, waker: Waker,
        mailbox: Mailbox<WorkerMessage>, services: WorkerServices, listeners: [Listener],
        shared: consuming SharedCounting? = nil, proxies: [CIDR] = [], counts: Int = 1_024
    ) throws {
        let policy = try Policy(rules: rules, trust: Trust(issuers: []), trustedProxies: proxies, envelopes: RunningWorker.envelopes)
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(
            routes: rules.map(\.name), upstreams: upstreams.map(\.settings.name), tiers: ["free", "premium"], issuers: [])
        let limiter = SharedLimiter(capacity: counts)
        try self.init(
            id: 0, settings: settings, loop: EventLoop(waker: waker), mailbox: mailbox, services: services,
            listeners: listeners, upstreams: upstreams,
            admission: Admission(policy: policy, limiter: limiter, cacheCapacity: 16), limits: LimitCounter(limiter, shared: shared),
            telemetry: WorkerTelemetry(labels: labels, sink: nil, format: .json, seed: 1))
    }

    fileprivate func count(into latest: LatestCensus) {
        var census = Census()
        census.clients = downstream.clients.count
        census.exchanges = exchanges.count
        for index in downstream.clients.indices where downstream.clients[index].phase != .free {
            census.bytes += downstream.clients[index].input.count + downstream.clients[index].output.count
        }
        for index in exchanges.indices { census.bytes += exchanges[index].pipedCount }
        for index in upstreams.connections.indices where upstreams.connections[index].phase != .free {
            let isIdle = upstreams.connections[index].phase == .idle || upstreams.isIdleSession(index)
            if isIdle { census.idle += 1 } else { census.busy += 1 }
            census.bytes += upstreams.connections[index].input.count + upstreams.connections[index].output.count
        }
        for number in upstreams.directory.pools.indices {
            let pool = upstreams.directory.pools[number]
            for endpoint in pool.endpoints {
                census.connections += endpoint.connections
                census.outstanding += endpoint.outstanding
                var at = endpoint.idleHead
                while let idle = at, census.listed <= upstreams.connections.count {
                    census.listed += 1
                    at = upstreams.connections[idle].nextIdle
                }
                at = endpoint.sessionHead
                while let connection = at, let session = upstreams.connections[connection].session,
                    census.listed <= upstreams.connections.count
                {
                    if upstreams.isIdleSession(connection) { census.listed += 1 }
                    at = upstreams.sessions[session].next
                }
            }
        }
        latest.value.withLock {
            census.turns = $0.turns + 1
            $0 = census
        }
    }
}

/// A worker in front of one upstream, which is the test's listener.
struct Bench {
    let worker: RunningWorker
    let upstream: Socket
    let asked = Questions()

    init(
        _ change: (inout RouteRule) -> Void = { _ in }, settings: WorkerSettings = WorkerSettings(),
        upstream adjust: (inout UpstreamSettings) -> Void = { _ in }
    ) throws {
        upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        change(&rule)
        worker = try RunningWorker(
            [rule], upstreams: [RunningWorker.upstream("back", [upstream.localAddress()], adjust)], settings: settings)
    }

    /// A worker that asks the test about its users.
    init(rules: [RouteRule], settings: WorkerSettings = WorkerSettings()) throws {
        upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let asked = asked
        worker = try RunningWorker(
            rules, upstreams: [RunningWorker.upstream("back", [upstream.localAddress()])], settings: settings,
            lookUpUser: { _ in asked.add { _ in } }, refresh: { _, reply in asked.add(reply) })
    }

    func client() throws -> Line { try Line(to: worker.address) }
    func accept() throws -> Line { try Line(acceptedFrom: upstream) }

    func end() {
        worker.stop()
        upstream.close()
    }

    /// Waits until the worker has asked so often; whether it was not more often.
    func isAsked(_ count: Int) -> Bool { worker.census { _ in asked.count >= count }.turns > 0 && asked.count == count }

    /// The key of the tokens' issuer.
    static let key = {
        let secret: StaticString = "0123456789abcdef0123456789abcdef"
        do { return try SigningKey(secret: secret.rawBytes) } catch { preconditionFailure("\(error)") }
    }()

    /// The issuer that `token` is of.
    static func issuer(_ name: String, isOwn: Bool = false) -> TrustedIssuer {
        var issuer = TrustedIssuer(name: name, issuer: "i", audiences: [], algorithms: .hmac, keys: KeySet([key.verificationKey]))
        issuer.isOwn = isOwn
        return issuer
    }

    static func token(_ user: String, expiresAt: Int64 = 4_000_000_000, tier: String? = nil) -> String {
        var claims = TokenClaims(issuer: "i", audience: nil, subject: user, issuedAt: 0, expiresAt: expiresAt)
        claims.tier = tier
        do { return try key.issue(claims) } catch { preconditionFailure("\(error)") }
    }
}

/// Questions of a worker for the tier of a user or a refreshed token.
final class Questions: Sendable {
    typealias Reply = @Sendable (RefreshAnswer) -> Void
    private let replies = Mutex<[Reply]>([])

    var count: Int { replies.withLock { $0.count } }

    func add(_ reply: @escaping Reply) { replies.withLock { $0.append(reply) } }

    /// Answers a request for a refresh.
    func reply(_ index: Int, _ outcome: TokenRefreshOutcome) { replies.withLock { $0[index] }(RefreshAnswer(outcome, .leader)) }
}

extension SlabIndex where Element: ~Copyable {
    /// Of the element that was taken first.
    static var first: Self { SlabIndex(number: 0) }
}
