import Credentials
import Synchronization
import TestThreads
import Testing
import Transport
import Wire

@testable import Gate
@testable import Proxy

/// Streams on a clock that the test moves. The client speaks HTTP/1.0, so it receives the content as it is; an end that looks whole is
/// an orderly one, a cut is a reset.
@Suite(.ownThread, .timeLimit(.minutes(1))) struct StreamTests {
    private static let session = UUID(high: 1, low: 2)
    private static let events = "Content-Type: text/event-stream\r\n"

    /// A store with one session.
    private final class Store: Sendable {
        private let state = Mutex<(newest: Int64?, questions: Int)>((nil, 0))

        func refreshed(until newest: Int64) { state.withLock { $0.newest = newest } }

        func asked() -> Int64? {
            state.withLock { state in
                state.questions += 1
                return state.newest
            }
        }

        var questions: Int { state.withLock { $0.questions } }
    }

    /// A request under way over a worker, and both of its ends.
    private struct Bench: ~Copyable {
        var stepped: SteppedWorker
        let upstream: Line
        let client: Line
        let listener: Socket

        init(
            request: String = "GET / HTTP/1.0\r\nHost: h\r\n\r\n", fields: String? = StreamTests.events, lifetime: Int64? = nil,
            heartbeat: UInt32? = nil, warning: UInt32? = nil,
            timeout: UInt32 = 600_000, extends: Bool = true, tier: StreamLife.TierNeed? = nil,
            sessionExpiry: @escaping @Sendable (UUID, @escaping @Sendable (Int64?) -> Void) -> Void = { _, answer in answer(nil) }
        ) throws {
            let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
            var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
            rule.timeoutMilliseconds = timeout
            rule.upstreamSpeaksHTTP2 = true
            rule.streams.heartbeatMilliseconds = heartbeat
            rule.streams.warningMilliseconds = warning
            var stepped = try SteppedWorker(
                [rule], upstreams: [RunningWorker.upstream("back", [listener.localAddress()])], sessionExpiry: sessionExpiry)
            let client = try Line(to: stepped.address)
            try client.send(request)
            let upstream = try stepped.accept(listener)
            try stepped.turn(untilReadable: upstream)
            _ = try upstream.receiveMessage()
            if let lifetime {
                let exchange = stepped.worker.exchanges.indices.first!
                stepped.worker.exchanges[exchange].life = StreamLife(
                    expiresAt: stepped.worker.now.wall.seconds + lifetime, leeway: 0, extendingSession: extends ? StreamTests.session : nil,
                    session: Self.key(StreamTests.session, stepped.worker.admission), subject: nil, apiKey: nil, tier: tier,
                    isOwn: true)
            }
            if let fields {
                try upstream.send("HTTP/1.1 200 OK\r\n\(fields)\r\n")
                try stepped.turn(untilReadable: client)
                _ = try client.receive(until: "\r\n\r\n")
            }
            self.stepped = stepped
            (self.upstream, self.client, self.listener) = (upstream, client, listener)
        }

        /// The session's key in the list of ended ones.
        private static func key(_ session: UUID, _ admission: borrowing Admission) -> LimitKey {
            let hash = admission.hash
            return session.text.withRawBytes { LimitSubject.session($0, issuer: "", hash) }
        }

        /// The upstream sends this, and the client receives it.
        mutating func pass(_ text: String) throws {
            try upstream.send(text)
            let received = try received(text.utf8.count)
            #expect(received == text)
        }

        mutating func received(_ count: Int) throws -> String {
            var bytes: [UInt8] = []
            while bytes.count < count {
                try stepped.turn(untilReadable: client)
                bytes += try client.receive(count - bytes.count) ?? []
            }
            return String(decoding: bytes, as: UTF8.self)
        }

        /// The bytes that the client has been sent by now.
        mutating func waiting() throws -> String {
            stepped.turn(waiting: 20)
            return client.isReady(milliseconds: 0) ? String(decoding: try client.receive() ?? [], as: UTF8.self) : ""
        }

        /// The client receives this, or anything, and then the end, as if whole or cut; nil for either.
        mutating func expectEnd(_ text: String?, _ end: LineEnd? = nil) throws {
            for _ in 0..<4 { stepped.turn(waiting: 10) }
            let rest = try client.receiveAll()
            #expect(text == nil || rest.text == text)
            #expect(end == nil || rest.end == end)
        }

        mutating func expectNothing() throws {
            let text = try waiting()
            #expect(text == "")
        }

        mutating func expectHeartbeat() throws {
            let text = try received(3)
            #expect(text == ":\n\n")
        }

        mutating func seconds(_ seconds: Double) { stepped.pass(milliseconds: UInt64(seconds * 1_000)) }

        mutating func close() {
            client.close()
            upstream.close()
            listener.close()
            stepped.end()
        }
    }

    // MARK: calls

    /// A server of gRPC may send its head with its first message only.
    @Test func aCallWhoseAnswerHasNotBegunEndsWithItsToken() throws {
        var bench = try Bench(
            request: "POST / HTTP/1.0\r\nHost: h\r\nContent-Type: application/grpc\r\n\r\n", fields: nil, lifetime: 10, extends: false)
        bench.seconds(5)
        try bench.expectNothing()
        bench.seconds(6)
        for _ in 0..<4 { bench.stepped.turn(waiting: 10) }
        let answer = try bench.client.receiveAll().text
        #expect(answer.contains("grpc-status: 16\r\n"), "\(answer)")
        bench.close()
    }

    // MARK: heartbeats

    @Test func aSilentUpstreamIsCoveredByHeartbeatsAndNotCut() throws {
        var bench = try Bench(heartbeat: 15_000, timeout: 30_000)
        for _ in 0..<8 {
            bench.seconds(15.1)
            try bench.expectHeartbeat()
        }
        try bench.pass("data: a\n\n")
        // The silence begins anew.
        bench.seconds(10)
        try bench.expectNothing()
        bench.seconds(5.1)
        try bench.expectHeartbeat()
        bench.close()
    }

    @Test func noHeartbeatComesInsideAnEvent() throws {
        var bench = try Bench(heartbeat: 5_000)
        try bench.pass("data: a\n")
        bench.seconds(6)
        try bench.expectNothing()
        try bench.pass("\n")
        bench.seconds(6)
        try bench.expectHeartbeat()
        bench.close()
    }

    @Test func withoutAHeartbeatSilenceEndsTheStream() throws {
        var bench = try Bench(timeout: 30_000)
        bench.seconds(31)
        try bench.expectEnd(nil, .reset)
        bench.close()
    }

    @Test func codedEventsAreLeftAlone() throws {
        var bench = try Bench(fields: Self.events + "Content-Encoding: br\r\n", lifetime: 12, heartbeat: 5_000)
        bench.seconds(6)
        try bench.expectNothing()
        bench.seconds(7)
        try bench.expectEnd("", .reset)
        bench.close()
    }

    // MARK: the end

    @Test func anEventStreamEndsWithACommentBetweenEvents() throws {
        var bench = try Bench(lifetime: 20)
        try bench.pass("data: a\n\ndata: b\n")
        bench.seconds(21)
        try bench.expectNothing()
        // Events behind the one under way are not sent.
        try bench.upstream.send("data: c\n\ndata: late\n\n")
        try bench.expectEnd("data: c\n\n: token_expired\n\n", .closed)
        bench.close()
    }

    @Test(arguments: [true, false]) func anEventThatDoesNotEndIsCut(_ extends: Bool) throws {
        var bench = try Bench(lifetime: 20, extends: extends)
        try bench.pass("data: a\n")
        bench.seconds(21)
        try bench.expectNothing()
        bench.seconds(0.6)
        try bench.expectEnd("", .reset)
        bench.close()
    }

    @Test func contentOfAKnownLengthIsCut() throws {
        var bench = try Bench(fields: Self.events + "Content-Length: 1000\r\n", lifetime: 20)
        try bench.pass("data: a\n\n")
        bench.seconds(21)
        // To a client that counts, an orderly end is early enough.
        try bench.expectEnd("")
        bench.close()
    }

    @Test func anOrdinaryAnswerIsNotCutBeforeItHasRunAMinute() throws {
        var bench = try Bench(fields: "Content-Type: video/mp4\r\n", lifetime: 5)
        for _ in 0..<5 {
            try bench.pass("frame")
            bench.seconds(11)
        }
        try bench.pass("frame")
        bench.seconds(11)
        try bench.expectEnd(nil, .reset)
        bench.close()
    }

    // MARK: sessions

    @Test func aRefreshedSessionGoesOn() throws {
        let store = Store()
        var bench = try Bench(lifetime: 20) { session, answer in
            #expect(session == Self.session)
            answer(store.asked())
        }
        store.refreshed(until: bench.stepped.worker.now.wall.seconds + 60)
        bench.seconds(21)
        try bench.pass("data: a\n\n")
        #expect(store.questions == 1)
        bench.seconds(20)
        try bench.pass("data: b\n\n")
        bench.seconds(20)
        try bench.expectEnd(": token_expired\n\n", .closed)
        #expect(store.questions == 2)
        bench.close()
    }

    @Test func aStoreThatDoesNotAnswerEndsItAfterAMoment() throws {
        var bench = try Bench(lifetime: 20) { _, _ in }
        bench.seconds(21)
        try bench.pass("data: a\n\n")
        bench.seconds(2.6)
        try bench.expectEnd(": token_expired\n\n")
        bench.close()
    }

    @Test func aWarningComesBeforeTheEndAndAgainAfterARefresh() throws {
        let store = Store()
        let begun = EventLoop.now().wall.seconds
        var bench = try Bench(lifetime: 100, warning: 60_000) { _, answer in answer(store.asked()) }
        try bench.pass("data: half\n")
        bench.seconds(41)
        try bench.expectNothing()
        // It waits for the end of the event.
        try bench.upstream.send("\ndata: b\n\n")
        let warning = "event: token-expiring\ndata: {\"expires_in\":"
        let text = try bench.received("\n\(warning)60}\n\ndata: b\n\n".utf8.count)
        #expect(text.hasPrefix("\n\(warning)") && text.hasSuffix("}\n\ndata: b\n\n"))
        store.refreshed(until: begun + 300)
        bench.seconds(30)
        _ = try bench.waiting()
        bench.seconds(31)
        try bench.pass("data: c\n\n")
        for _ in 0..<14 { bench.seconds(10) }
        let later = try bench.waiting()
        #expect(later.contains(warning), "\(later)")
        bench.close()
    }

    @Test(arguments: [false, true]) func anEndedSessionEndsItsStreamAtOnce(_ isEvents: Bool) throws {
        var bench = try Bench(fields: isEvents ? Self.events : "Content-Type: video/mp4\r\n", lifetime: 3_600)
        bench.stepped.post(.revoked([RevokedSession(id: UUID(high: 9, low: 9).text, until: .max)]))
        bench.seconds(1)
        try bench.pass("data: a\n\n")
        bench.stepped.post(.revoked([RevokedSession(id: Self.session.text, until: .max)]))
        bench.stepped.worker.hasMessages = true
        bench.stepped.turn()
        bench.seconds(0.1)
        try bench.expectEnd(isEvents ? ": session_ended\n\n" : "", isEvents ? .closed : .reset)
        bench.close()
    }

    @Test func anAnswerThatHasJustBegunHasHalfASecond() throws {
        var bench = try Bench(fields: "Content-Type: video/mp4\r\n", lifetime: 3_600)
        bench.stepped.post(.revoked([RevokedSession(id: Self.session.text, until: .max)]))
        bench.stepped.worker.hasMessages = true
        bench.stepped.turn()
        bench.seconds(0.05)
        try bench.pass("short")
        bench.seconds(0.55)
        try bench.expectEnd(nil, .reset)
        bench.close()
    }

    @Test func aSessionThatEndedBeforeTheHeadEndsTheStreamWithIt() throws {
        // The bench sets the session before the head comes.
        var bench = try Bench(lifetime: -5) { _, answer in answer(nil) }
        try bench.expectEnd(": token_expired\n\n", .closed)
        bench.close()
    }

    @Test func aTierThatFallsEndsItsStreamAndAnUnknownOneDoesNot() throws {
        let user = TokenUser("ada")
        let key = LimitKey(high: 3, low: 4)
        let need = StreamLife.TierNeed(least: Tier(rawValue: 1), user: key, claimed: .lowest)
        var bench = try Bench(lifetime: 3_600, tier: need)
        func learn(_ status: TierStatus, version: Int64) {
            let update = UserTier(user: user, status: status, version: version, source: .pushed)
            bench.stepped.worker.admission.tierCache.learn(update, of: key)
            bench.stepped.worker.streams.sweepSoon(at: bench.stepped.worker.now.monotonic)
        }
        bench.seconds(2)
        try bench.pass("data: unknown\n\n")
        learn(.tier(Tier(rawValue: 1), until: .max), version: 1)
        bench.seconds(2)
        try bench.pass("data: premium\n\n")
        learn(.tier(.lowest, until: .max), version: 2)
        bench.seconds(0.1)
        try bench.expectEnd(": tier\n\n", .closed)
        bench.close()
    }

    /// A reload that adds a tier between two gives what the stream needs another rank.
    @Test func aStreamNeedsTheSameTierUnderAnotherListOfTiers() throws {
        let user = TokenUser("ada")
        let key = LimitKey(high: 3, low: 4)
        let need = StreamLife.TierNeed(least: Tier(rawValue: 1), user: key, claimed: .lowest)
        var bench = try Bench(lifetime: 3_600, tier: need)
        let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        let tiers = try TierList(["free", "basic", "premium"])
        bench.stepped.post(.adoptPolicy(try Policy(version: 2, tiers: tiers, rules: [rule], trust: Trust(issuers: []))))
        bench.stepped.worker.hasMessages = true
        bench.stepped.turn()
        func learn(_ tier: String, version: Int64) throws {
            let status = TierStatus.tier(try #require(tiers.rank(of: tier)), until: .max)
            let update = UserTier(user: user, status: status, version: version, source: .pushed)
            bench.stepped.worker.admission.tierCache.learn(update, of: key)
            bench.stepped.worker.streams.sweepSoon(at: bench.stepped.worker.now.monotonic)
        }
        try learn("premium", version: 1)
        bench.seconds(2)
        try bench.pass("data: premium\n\n")
        try learn("basic", version: 2)
        bench.seconds(0.1)
        try bench.expectEnd(": tier\n\n", .closed)
        bench.close()
    }

    // MARK: the gateway

    @Test func aDrainEndsEventStreams() throws {
        var bench = try Bench()
        try bench.pass("data: a\n\n")
        bench.stepped.post(.drain(within: 60_000))
        bench.stepped.worker.hasMessages = true
        bench.stepped.turn()
        try bench.expectEnd(": drain\n\n", .closed)
        bench.close()
    }

    @Test func nothingIsLeftOfStreamsThatEnd() throws {
        var bench = try Bench(lifetime: 20, heartbeat: 1_000)
        let before = bench.stepped.worker.streams.open.count
        bench.client.reset()
        bench.stepped.turn(waiting: 100)
        bench.seconds(30)
        let (streams, exchanges) = (bench.stepped.worker.streams.open.count, bench.stepped.worker.exchanges.count)
        #expect(before == 1 && streams == 0 && exchanges == 0)
        bench.close()
    }
}
