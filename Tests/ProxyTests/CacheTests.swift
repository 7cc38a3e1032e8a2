import Credentials
import Gate
import HTTP
import Telemetry
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// A worker whose only route is cached, its upstream and its clients, all in the hands of the test.
final class CacheBench {
    var stepped: SteppedWorker
    let listener: Socket
    /// Connections to the upstream by number, and how many there were.
    var numbered: [Int: Line] = [:]
    var accepted = 0

    init(settings: WorkerSettings = WorkerSettings(), allowsHTTP2: Bool = false, _ change: (inout RouteRule) -> Void = { _ in }) throws {
        listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .optional)
        rule.cache.freshSeconds = 60
        rule.cache.sharing = .everyone
        change(&rule)
        stepped = try SteppedWorker(
            [rule], upstreams: [RunningWorker.upstream("back", [listener.localAddress()])], settings: settings, allowsHTTP2: allowsHTTP2)
        try stepped.post(.adoptPolicy(Policy(rules: [rule], trust: Trust(issuers: [Bench.issuer("i")]))))
    }

    static func request(
        _ path: String = "/", _ fields: [String] = [], method: String = "GET", user: String? = nil, tier: String? = nil
    ) -> String {
        var fields = fields
        if let user { fields.append("Authorization: Bearer " + Bench.token(user, tier: tier)) }
        return (["\(method) \(path) HTTP/1.1", "Host: h"] + fields + ["", ""]).joined(separator: "\r\n")
    }

    static func answer(_ content: String, _ fields: [String] = [], status: String = "200 OK") -> String {
        (["HTTP/1.1 \(status)"] + fields + ["Content-Length: \(content.utf8.count)", "", content]).joined(separator: "\r\n")
    }

    /// A client that has sent a request.
    func client(_ request: String) throws -> Line {
        let client = try Line(to: stepped.address)
        try client.send(request)
        return client
    }

    /// The next request of the worker to its upstream.
    func asked() throws -> (line: Line, request: String) {
        for _ in 0..<3_000 {
            stepped.turn(waiting: 5)
            if let question = poll(), let line = numbered[question.number] { return (line, question.request) }
        }
        throw TestFault("the upstream was not asked")
    }

    /// Whether the upstream is not asked in some turns.
    func isSilent() -> Bool {
        for _ in 0..<20 { stepped.turn() }
        return poll() == nil
    }

    /// The client's next answer: a message with a length, or all up to the end of chunks.
    func received(_ client: Line, isHead: Bool = false) throws -> String {
        var text = ""
        while !Self.isWhole(text, isHead: isHead) {
            try stepped.turn(untilReadable: client)
            guard let more = try client.receive() else { throw TestFault("ended after \(text.debugDescription)") }
            text += String(decoding: more, as: UTF8.self)
        }
        return text
    }

    private static func isWhole(_ text: String, isHead: Bool) -> Bool {
        guard text.contains("\r\n\r\n") else { return false }
        if isHead || text.status == 304 { return true }
        let isChunked = text.headLines.contains("Transfer-Encoding: chunked")
        return isChunked ? text.hasSuffix("0\r\n\r\n") : text.body.utf8.count >= text.contentLength
    }

    /// One request that is answered from the cache.
    func hit(_ request: String, isHead: Bool = false) throws -> String {
        let client = try client(request)
        defer { client.close() }
        return try received(client, isHead: isHead)
    }

    /// One request that the upstream answers; what it was asked, and what the client got.
    @discardableResult
    func fetch(_ request: String, _ answer: String) throws -> (asked: String, answer: String) {
        let client = try client(request)
        defer { client.close() }
        let (line, asked) = try asked()
        try line.send(answer)
        return (asked, try received(client, isHead: request.hasPrefix("HEAD")))
    }

    /// How the cache has answered, in the client's words.
    static func status(_ answer: String) -> String { answer.value(of: "Cache-Status") ?? "none" }
}

@Suite(.ownThread, .timeLimit(.minutes(2))) struct CacheTests {
    private static let get = CacheBench.request()
    private static let ok = CacheBench.answer("content", ["ETag: \"a\"", "Age: 7", "X-Own: 1", "Connection: x-hop", "X-Hop: 1"])

    @Test func anAnswerIsFetchedOnceAndThenComesFromTheCache() throws {
        let bench = try CacheBench()
        let first = try bench.fetch(Self.get, Self.ok).answer
        #expect(CacheBench.status(first) == "tollgate; fwd=miss; stored")
        bench.stepped.advance(milliseconds: 10_000)
        let second = try bench.hit(Self.get)
        #expect(CacheBench.status(second) == "tollgate; hit; ttl=50")
        #expect(second.status == 200 && second.body == "content" && second.value(of: "Age") == "17" && second.value(of: "X-Own") == "1")
        #expect(second.value(of: "X-Hop") == nil)
        let head = try bench.hit(CacheBench.request(method: "HEAD"), isHead: true)
        #expect(head.status == 200 && head.contentLength == 7 && head.body == "")
        let part = try bench.hit(CacheBench.request("/", ["Range: bytes=1-3"]))
        #expect(part.status == 206 && part.body == "ont" && part.value(of: "Content-Range") == "bytes 1-3/7")
        let beyond = try bench.hit(CacheBench.request("/", ["Range: bytes=7-"]))
        #expect(beyond.status == 416 && beyond.value(of: "Content-Range") == "bytes */7")
        let same = try bench.hit(CacheBench.request("/", ["If-None-Match: \"a\""]))
        #expect(same.status == 304 && same.value(of: "ETag") == "\"a\"" && same.value(of: "Content-Length") == nil)
        // The client cannot make the gateway ask its upstream.
        #expect(CacheBench.status(try bench.hit(CacheBench.request("/", ["Cache-Control: no-cache", "Pragma: no-cache"]))).contains("hit"))
        let old = try bench.client("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
        #expect(try bench.received(old).body == "content")
        #expect(bench.isSilent())
    }

    @Test func theUpstreamOfASharedAnswerIsToldNothingOfTheCaller() throws {
        let bench = try CacheBench { $0.cache.vary = ["x-channel"] }
        let request = CacheBench.request(
            "/?q=1",
            [
                "Cookie: a=b", "X-Channel: beta", "X-Api-Key: k", "User-Agent: u", "Range: bytes=0-1", "If-None-Match: \"x\"",
                "Accept: a/b",
                "Cache-Control: no-store", "X-Forwarded-For: 1.2.3.4",
            ], user: "anna", tier: "premium")
        let asked = try bench.fetch(request, Self.ok).asked
        let names = asked.headLines.dropFirst().map { $0.prefix { $0 != ":" }.lowercased() }.sorted()
        #expect(names == ["accept", "host", "traceparent", "via", "x-channel", "x-forwarded-host", "x-forwarded-proto", "x-request-id"])
        // Another value of the field that is named is another answer.
        try bench.fetch(CacheBench.request("/?q=1", ["X-Channel: stable"]), Self.ok)
        #expect(CacheBench.status(try bench.hit(CacheBench.request("/?q=1", ["X-Channel: beta"], user: "otto"))).contains("hit"))
    }

    @Test func eachUserAndEachTierHasItsOwnAnswer() throws {
        let byUser = try CacheBench { $0.cache.sharing = .user }
        for user in ["anna", "otto"] {
            let (asked, answer) = try byUser.fetch(
                CacheBench.request(user: user), CacheBench.answer("of \(user)", ["Cache-Control: private, max-age=9"]))
            #expect(asked.value(of: "X-User-Id") == user && answer.body == "of \(user)" && asked.value(of: "Authorization") == nil)
        }
        for user in ["otto", "anna"] { #expect(try byUser.hit(CacheBench.request(user: user)).body == "of \(user)") }
        // Without a user, an answer for one user alone is not stored.
        for _ in 0..<2 { try byUser.fetch(Self.get, CacheBench.answer("x", ["Cache-Control: private"])) }
        let byTier = try CacheBench { $0.cache.sharing = .tier }
        for (user, tier) in [("anna", "premium"), ("otto", "free")] {
            let asked = try byTier.fetch(CacheBench.request(user: user, tier: tier), CacheBench.answer(tier)).asked
            #expect(asked.value(of: "X-User-Tier") == tier && asked.value(of: "X-User-Id") == nil)
        }
        for (user, tier) in [("emil", "premium"), ("ida", "free")] {
            #expect(try byTier.hit(CacheBench.request(user: user, tier: tier)).body == tier)
        }
    }

    @Test func oneFetchServesEveryTierOfAFilteredRoute() throws {
        let bench = try CacheBench { $0.filters = [try! FilterPath(parsing: "tier")] }
        let list = #"[{"tier":"free"},{"tier":"premium"}]"#
        let fields = ["Content-Type: application/json", "ETag: \"l\""]
        let first = try bench.fetch(CacheBench.request(user: "anna", tier: "premium"), CacheBench.answer(list, fields)).answer
        #expect(first.body.contains("premium"))
        let free = try bench.hit(Self.get)
        #expect(free.body.contains("free") && !free.body.contains("premium") && free.value(of: "Cache-Control") == "private")
        #expect(free.value(of: "Vary") == "Authorization" && free.value(of: "Content-Length") == nil)
        let tag = try #require(free.value(of: "ETag"))
        #expect(tag.hasPrefix("W/\"l~free"))
        #expect(try bench.hit(CacheBench.request("/", ["If-None-Match: \(tag)"])).status == 304)
        // The tag of one tier says nothing for another.
        #expect(try bench.hit(CacheBench.request("/", ["If-None-Match: \(tag)"], user: "anna", tier: "premium")).body.contains("premium"))
        #expect(try bench.hit(CacheBench.request("/", ["Range: bytes=0-30"])).status == 200)
        #expect(bench.isSilent())
        try bench.fetch(CacheBench.request("/one", user: "anna", tier: "premium"), CacheBench.answer(#"{"tier":"premium"}"#, fields))
        #expect(try bench.hit(CacheBench.request("/one")).status == 403)
    }

    @Test func allWhoWaitReadAlongAndTheFetchOutlivesTheFirst() throws {
        let bench = try CacheBench()
        let clients = try (0..<50).map { _ in try bench.client(Self.get) }
        let (line, _) = try bench.asked()
        #expect(bench.isSilent())
        clients[0].reset()
        try line.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        try bench.stepped.turn(untilReadable: clients[1])
        #expect(try clients[1].receive(until: "first").status == 200)
        // One that comes now joins them.
        let late = try bench.client(Self.get)
        try bench.stepped.turn(untilReadable: late)
        try line.send("later")
        for client in clients[2...] { #expect(try bench.received(client).body == "firstlater") }
        #expect(try bench.received(late).body == "firstlater")
        #expect(CacheBench.status(try bench.hit(Self.get)).contains("hit"))
        #expect(bench.stepped.worker.downstream.fetches == 0 && bench.stepped.worker.cache.flights.isEmpty)
    }

    @Test func aFetchEndsWithTheLastWhoWaits() throws {
        let bench = try CacheBench()
        let clients = try (0..<3).map { _ in try bench.client(Self.get) }
        let (line, _) = try bench.asked()
        for client in clients { client.reset() }
        try bench.stepped.turn(untilReadable: line)
        #expect(try line.receiveAll().text == "")
        #expect(bench.stepped.worker.exchanges.count == 0 && bench.stepped.worker.downstream.clients.count == 0)
    }

    @Test func anAnswerThatBreaksOffIsCutAndNotStored() throws {
        let bench = try CacheBench()
        let clients = try (0..<3).map { _ in try bench.client(Self.get) }
        let (line, _) = try bench.asked()
        try line.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n")
        try bench.stepped.turn(untilReadable: clients[2])
        bench.drop(line)
        for client in clients {
            let text = String(decoding: try bench.stepped.takeAll(client), as: UTF8.self)
            #expect(text.contains("part") && !text.hasSuffix("0\r\n\r\n"))
        }
        let failing = try bench.client(Self.get)
        let (second, _) = try bench.asked()
        bench.drop(second)
        let (third, _) = try bench.asked()
        bench.drop(third)
        #expect(try bench.received(failing).status == 502)
        #expect(bench.stepped.worker.cache.store.count == 0)
    }

    @Test func anAnswerThatIsNotStoredGoesToTheOneWhoAskedFirst() throws {
        let bench = try CacheBench()
        let clients = try (0..<3).map { _ in try bench.client(Self.get) }
        let (line, _) = try bench.asked()
        try line.send(CacheBench.answer("one", ["Cache-Control: no-store"]))
        #expect(try bench.received(clients[0]).body == "one")
        let others = try (0..<2).map { _ in try bench.asked().line }
        for line in others { try line.send(CacheBench.answer("other", ["Cache-Control: no-store"])) }
        for client in clients[1...] {
            let answer = try bench.received(client)
            #expect(answer.body == "other" && CacheBench.status(answer) == "tollgate; fwd=miss")
        }
        // From now on no client waits for another.
        let two = try (0..<2).map { _ in try bench.client(Self.get) }
        let (first, _) = try bench.asked()
        let (second, _) = try bench.asked()
        for line in [first, second] { try line.send(Self.ok) }
        for client in two { #expect(CacheBench.status(try bench.received(client)) == "tollgate; fwd=bypass") }
    }

    @Test func anAnswerThatIsTooLargeKeepsThePaceOfItsReader() throws {
        var settings = WorkerSettings()
        settings.cacheBytes = 1 << 20
        let bench = try CacheBench(settings: settings)
        let client = try Line(to: bench.stepped.address, receiveBuffer: 4_096)
        try client.send(CacheBench.request("/", ["Connection: close"]))
        let (line, _) = try bench.asked()
        try line.send("HTTP/1.1 200 OK\r\n\r\n")
        var sent = 0
        for _ in 0..<2_000 {
            sent += line.sendWhatGoes([UInt8](repeating: 7, count: 65_536), waiting: 0)
            bench.stepped.turn()
        }
        // No more than buffers of sockets, pieces under way, and what is read at once.
        #expect(sent < 24 << 20)
        bench.drop(line)
        let all = try bench.stepped.takeAll(client)
        #expect(all.count > sent && bench.stepped.worker.cache.store.entries { $0.head != nil }.isEmpty)
    }

    @Test func aStaleAnswerIsSentWhileOneFetchConfirmsIt() throws {
        let bench = try CacheBench { $0.cache.staleSeconds = 30 }
        try bench.fetch(Self.get, Self.ok)
        bench.stepped.advance(milliseconds: 61_000)
        for _ in 0..<3 { #expect(CacheBench.status(try bench.hit(Self.get)) == "tollgate; fwd=stale") }
        let (line, asked) = try bench.asked()
        #expect(asked.value(of: "If-None-Match") == "\"a\"")
        try line.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nX-Own: 2\r\n\r\n")
        try bench.stepped.turn { $0.cache.flights.isEmpty }
        let fresh = try bench.hit(Self.get)
        #expect(CacheBench.status(fresh) == "tollgate; hit; ttl=60" && fresh.body == "content" && fresh.value(of: "X-Own") == "2")
        #expect(bench.isSilent())
    }

    @Test func aStaleAnswerIsSentWhileTheUpstreamFails() throws {
        let bench = try CacheBench { $0.cache.errorSeconds = 100 }
        try bench.fetch(Self.get, Self.ok)
        bench.stepped.advance(milliseconds: 70_000)
        let answer = try bench.fetch(Self.get, CacheBench.answer("broken", status: "500 X")).answer
        #expect(answer.status == 200 && answer.body == "content" && CacheBench.status(answer) == "tollgate; fwd=stale")
        let client = try bench.client(Self.get)
        // The kept connection, a new one, and a retry.
        for _ in 0..<3 {
            let (line, _) = try bench.asked()
            bench.drop(line)
        }
        #expect(try bench.received(client).body == "content")
        bench.stepped.advance(milliseconds: 100_000)
        #expect(try bench.fetch(Self.get, CacheBench.answer("broken", status: "500 X")).answer.status == 500)
    }

    @Test func afterAPurgeNobodyGetsWhatWasAskedForBefore() throws {
        let bench = try CacheBench()
        try bench.fetch(CacheBench.request("/a"), Self.ok)
        try bench.fetch(CacheBench.request("/b"), CacheBench.answer("b", ["Cache-Tag: t"]))
        let early = try bench.client(CacheBench.request("/c"))
        let (line, _) = try bench.asked()
        for selector in [CacheSelector(path: "/a"), CacheSelector(tag: "t")] {
            bench.stepped.post(.cache(.select(selector, removes: true) { totals in #expect(totals.entries == 1) }))
        }
        bench.stepped.turn()
        let late = try bench.client(CacheBench.request("/c"))
        let (second, _) = try bench.asked()
        try line.send(CacheBench.answer("old"))
        #expect(try bench.received(early).body == "old")
        try second.send(CacheBench.answer("new"))
        #expect(try bench.received(late).body == "new")
        #expect(try bench.hit(CacheBench.request("/c")).body == "new")
        for path in ["/a", "/b"] { try bench.fetch(CacheBench.request(path), Self.ok) }
    }

    @Test func aSuccessfulChangeRemovesTheAnswersToItsTarget() throws {
        let bench = try CacheBench()
        for path in ["/a?x", "/b"] { try bench.fetch(CacheBench.request(path), Self.ok) }
        try bench.fetch(CacheBench.request("/a?x", method: "DELETE"), CacheBench.answer("", status: "409 Conflict"))
        #expect(CacheBench.status(try bench.hit(CacheBench.request("/a?x"))).contains("hit"))
        try bench.fetch(CacheBench.request("/a?x", method: "DELETE"), CacheBench.answer(""))
        try bench.fetch(CacheBench.request("/a?x"), Self.ok)
        #expect(CacheBench.status(try bench.hit(CacheBench.request("/b"))).contains("hit"))
    }

    @Test func aWorkerUsesNoEntryFromBeforeAChangeThoughItsHomeHasNotRemovedItYet() throws {
        let bench = try CacheBench()
        for path in ["/a", "/b"] { try bench.fetch(CacheBench.request(path), Self.ok) }
        let entries = bench.stepped.worker.cache.store.entries { $0.head != nil }.sorted {
            $0.key.path.lexicographicallyPrecedes($1.key.path)
        }
        try #require(entries.count == 2)
        var other = WorkerCache(generation: entries[0].key.generation, capacity: 1 << 20, keepsForms: false)
        for entry in entries { other.put(entry, insteadOf: nil) }
        let times = [(-1, [true, true]), (0, [false, true]), (1_000_000, [false, true])]
        for (after, areCurrent) in times {
            let time = MonotonicTime(nanoseconds: UInt64(Int(entries[0].receivedAt.nanoseconds) + after))
            other.noteChange(of: entries[0].key.target, at: time)
            let found = entries.map { other.isCurrent($0) }
            #expect(found == areCurrent, "\(after)")
        }
    }

    @Test func answersDifferByTheFieldsThatTheUpstreamNames() throws {
        let bench = try CacheBench()
        func request(_ language: String) -> String { CacheBench.request("/", ["Accept-Language: \(language)"]) }
        let clients = try ["de", "fr", "de"].map { try bench.client(request($0)) }
        let (line, _) = try bench.asked()
        try line.send(CacheBench.answer("Tor", ["Vary: Accept-Language"]))
        let (second, asked) = try bench.asked()
        #expect(asked.value(of: "Accept-Language") == "fr")
        try second.send(CacheBench.answer("porte", ["Vary: Accept-Language"]))
        #expect(try clients.map { try bench.received($0).body } == ["Tor", "porte", "Tor"])
        #expect(try ["fr", "de"].map { try bench.hit(request($0)).body } == ["porte", "Tor"])
        // Coded content is not for those who have not asked for it, whether the upstream says so or not.
        try bench.fetch(CacheBench.request("/z", ["Accept-Encoding: gzip"]), CacheBench.answer("zzz", ["Content-Encoding: gzip"]))
        try bench.fetch(CacheBench.request("/z"), CacheBench.answer("plain"))
    }

    @Test func aReloadBeginsWithoutAnswers() throws {
        let bench = try CacheBench()
        try bench.fetch(Self.get, Self.ok)
        let early = try bench.client(CacheBench.request("/c"))
        let (line, _) = try bench.asked()
        var labels = bench.stepped.worker.telemetry.labels
        labels.declare(routes: ["all"], upstreams: ["back"], tiers: ["free", "premium"], issuers: [])
        let rules = bench.stepped.worker.admission.policy.rules
        let policy = try Policy(version: 2, rules: rules, trust: Trust(issuers: []))
        let upstreams = [RunningWorker.upstream("back", [try bench.listener.localAddress()])]
        bench.stepped.post(.adopt(policy, upstreams, WorkerSettings(), labels))
        bench.stepped.turn()
        try line.send(Self.ok)
        #expect(try bench.received(early).body == "content")
        for path in ["/", "/c"] { try bench.fetch(CacheBench.request(path), Self.ok) }
    }
}
