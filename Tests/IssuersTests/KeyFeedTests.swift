import Credentials
import Storage
import Synchronization
import System
import Telemetry
import Testing
import Transport
import Wire
import Workbench

@testable import Issuers

/// The key set refresher with a real server and a real folder.
@Suite struct KeyFeedTests {
    private let folder: TemporaryFolder
    private let jwks = jwksOfA
    private static let otherJWKS = Array(
        #"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"b"}]}"#.utf8)

    init() throws { folder = try TemporaryFolder() }

    private func plan(_ holders: [(name: String, source: KeySource)]) -> IssuersPlan {
        IssuersPlan(
            dataDirectory: folder.path, ownSecret: nil, algorithm: .ES256, sharing: nil,
            outside: holders.map { KeyHolder(name: $0.name, source: $0.source, algorithms: .asymmetric) })
    }

    /// Issuers `t0`, `t1` and so on with these key sets: a URL or the path of a file.
    private func plan(_ places: String...) -> IssuersPlan {
        plan(places.enumerated().map { ("t\($0.offset)", $0.element.hasPrefix("/") ? .file($0.element) : .url($0.element)) })
    }

    /// The newest snapshot and all events of a feed.
    private final class Listener: Sendable {
        let keys = Mutex<IssuerKeys?>(nil)
        let events = Mutex<[KeyEvent]>([])

        func kids(_ name: String) -> [String]? { keys.withLock { $0?.outside[name]?.keys.compactMap(\.kid) } }
    }

    private func feed(_ configuration: IssuersPlan, _ listener: Listener) throws -> KeySetRefresher {
        let keys = try KeySetRefresher.load(configuration, at: EventLoop.now())
        return try KeySetRefresher(
            configuration, own: try #require(keys.own), onChange: { keys in listener.keys.withLock { $0 = keys } },
            onEvent: { event in listener.events.withLock { $0.append(event) } })
    }

    @Test func aKeySetIsFetchedAtOnceAndKeptForTheNextStart() throws {
        let server = try TinyServer(["/jwks": TinyServer.answer(jwks, fields: "Cache-Control: max-age=600\r\n")])
        let configuration = plan(server.url("/jwks"))
        #expect(try KeySetRefresher.load(configuration, at: EventLoop.now()).outside["t0"] == nil)
        let listener = Listener()
        let feed = try feed(configuration, listener)
        #expect(eventually { listener.kids("t0") == ["a"] })
        #expect(eventually { feed.statuses.first?.keyCount == 1 })
        #expect(feed.statuses.first?.problem == nil)
        feed.stop()
        server.stop()
        // The issuer is away now, and its keys are still there.
        #expect(try KeySetRefresher.load(configuration, at: EventLoop.now()).outside["t0"]?.keys.map(\.kid) == ["a"])
    }

    @Test func aFailingIssuerIsReportedAndDoesNotAffectOthers() throws {
        let tooLarge = [UInt8](repeating: 32, count: (1 << 20) + 1)
        let server = try TinyServer([
            "/good": TinyServer.answer(jwks),
            "/nonsense": TinyServer.answer(Array("<html>".utf8), fields: "Content-Type: text/html; charset=utf-8\r\n"),
            "/large": TinyServer.answer(tooLarge),
            "/chunked": Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n".utf8) + tooLarge,
            "/file": TinyServer.answer([], status: "302 Found", fields: "Location: file:///etc/passwd\r\n"),
            "/loop": TinyServer.answer([], status: "302 Found", fields: "Location: /loop\r\n"),
            "/moved": TinyServer.answer([], status: "302 Found", fields: "Location: /good\r\n"),
        ])
        let paths = ["/good", "/nonsense", "/large", "/chunked", "/file", "/loop", "/missing", "/moved"]
        let holders =
            [("down", KeySource.url("http://127.0.0.1:1/?key=secret"))] + paths.map { (String($0.dropFirst()), .url(server.url($0))) }
        let listener = Listener()
        let feed = try feed(plan(holders), listener)
        #expect(eventually { feed.statuses.count == 9 && feed.statuses.allSatisfy { $0.fetches > 0 } })
        let problems = Dictionary(uniqueKeysWithValues: feed.statuses.map { ($0.name, $0.problem ?? "") })
        #expect(problems["good"] == "")
        #expect(problems["down"]?.hasPrefix("http://127.0.0.1:1/?***: ") == true && problems["down"]?.contains("secret") == false)
        #expect(problems["moved"] == "")
        #expect(problems["nonsense"]?.contains("the answer has the content type text/html and is no usable key set") == true)
        #expect(problems["large"]?.contains("exceeded") == true || problems["large"]?.contains("larger than 1 MiB") == true)
        #expect(problems["chunked"]?.contains("larger than 1 MiB") == true)
        #expect(problems["file"]?.contains("nsupported protocol") == true || problems["file"]?.contains("rotocol") == true)
        #expect(problems["loop"]?.isEmpty == false)
        #expect(problems["missing"]?.hasSuffix("the answer has the status 404 and no content type") == true)
        #expect(problems["down"]?.isEmpty == false)
        #expect(eventually { listener.kids("good") == ["a"] && listener.kids("moved") == ["a"] })
        #expect(listener.kids("nonsense") == nil)
        feed.stop()
        server.stop()
    }

    @Test func aKeyThatIsLeftOutOfASetIsLoggedOnceWhetherTheSetIsFetchedKeptOrAFile() throws {
        let mixed = Array(#"{"keys":[\#(forgeableJWK),"#.utf8) + jwks.dropFirst(#"{"keys":["#.utf8.count)
        let path = folder.path + "/k.json"
        try FileBytes.write(jwks, to: path)
        let server = try TinyServer(["/jwks": TinyServer.answer(mixed)])
        let configuration = plan(server.url("/jwks"), path)
        func leftOut(_ listener: Listener, _ name: String) -> Int {
            listener.events.withLock { $0.count { $0.issuer == name && $0.message == "a key is refused: key 'card' \(forgeableReason)" } }
        }
        let listener = Listener()
        let feed = try feed(configuration, listener)
        #expect(eventually { listener.kids("t0") == ["a"] && leftOut(listener, "t0") == 1 })
        try FileBytes.write(mixed, to: path)
        #expect(eventually { leftOut(listener, "t1") == 1 })
        #expect(listener.kids("t1") == ["a"])
        feed.stop()
        // The cached set has the same keys, and this start has not logged the refused one yet.
        let later = Listener()
        let next = try self.feed(configuration, later)
        #expect(eventually { next.statuses.contains { $0.name == "t0" && $0.fetches > 0 } })
        #expect(leftOut(later, "t0") == 1 && leftOut(later, "t1") == 1)
        next.stop()
        server.stop()
    }

    @Test func aSetWithMoreNamelessKeysThanAreTriedIsLoggedOnce() throws {
        func set(_ count: Int, _ more: String = "") -> [UInt8] {
            let keys = (1...count).map { number in
                let point = Base64URL.encode(([UInt8](repeating: 7, count: 31) + [UInt8(number)]).rawBytes)
                return #"{"kty":"OKP","crv":"Ed25519","x":"\#(point)"\#(more)}"#
            }
            return Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8)
        }
        let path = folder.path + "/k.json"
        try FileBytes.write(jwks, to: path)
        let listener = Listener()
        let feed = try feed(plan(path), listener)
        for (document, keys, warnings) in [
            (set(8), 8, 0), (set(10), 10, 1), (set(11), 11, 1), (set(20, #","kid":"a""#), 20, 1), (set(9), 9, 2),
        ] {
            try FileBytes.write(document, to: path)
            #expect(eventually { feed.statuses.first?.keyCount == keys })
            let logged = listener.events.withLock { $0.filter { $0.issuer == "t0" && $0.message.contains("without a \"kid\"") } }
            #expect(logged.count == warnings, "\(keys): \(logged)")
        }
        feed.stop()
    }

    @Test func aFileThatChangedIsReadAgainAndABrokenOneChangesNothing() throws {
        let path = folder.path + "/k.json"
        try FileBytes.write(jwks, to: path)
        let listener = Listener()
        let feed = try feed(plan(path), listener)
        #expect(eventually { listener.kids("t0") == ["a"] })
        try FileBytes.write(Array("broken".utf8), to: path)
        #expect(eventually { feed.statuses.first?.problem != nil })
        #expect(listener.kids("t0") == ["a"])
        try FileBytes.write(Self.otherJWKS, to: path)
        #expect(eventually { listener.kids("t0") == ["b"] })
        feed.stop()
    }

    @Test func rotatedKeysAreTakenUpByARunningGateway() throws {
        let listener = Listener()
        let feed = try feed(plan(), listener)
        let ring = try KeyStore(dataDirectory: folder.path).rotate(
            to: .ES256, clockSkewSeconds: 30, now: EventLoop.now().wall)
        #expect(eventually { listener.keys.withLock { $0?.own?.active.kid } == ring.active.kid })
        feed.stop()
    }

    @Test func keysThatAreRotatedBetweenReadingAndWatchingThemAreTakenUp() throws {
        let plan = plan()
        let read = try #require(try KeySetRefresher.load(plan, at: EventLoop.now()).own)
        let ring = try KeyStore(dataDirectory: folder.path).rotate(
            to: .ES256, clockSkewSeconds: 30, now: EventLoop.now().wall)
        var sources = KeySources(plan, own: read, earlier: nil, at: EventLoop.now())
        _ = sources.checkFiles()
        #expect(sources.own?.active.kid == ring.active.kid)
        // A reload that had read the keys before the rotation.
        var reloaded = KeySources(plan, own: read, earlier: sources, at: EventLoop.now())
        _ = reloaded.checkFiles()
        #expect(reloaded.own?.active.kid == ring.active.kid)
    }

    @Test func olderKeysOfTheDatabaseAreNotBroughtBackByALateReadingOrAReload() throws {
        var plan = plan()
        plan.sharing = KeySharing(location: try StoreLocation(url: "postgres://127.0.0.1/db"), secret: sharedSecret)
        let rings = try (0..<3).map { _ in try SigningKeyRing.generate(.ES256, now: EventLoop.now().wall) }
        let listener = Listener()
        let feed = try KeySetRefresher(
            plan, own: rings[0], onChange: { keys in listener.keys.withLock { $0 = keys } }, onEvent: { _ in })
        feed.adopt(rings[2], asOf: moment(2))
        feed.adopt(rings[1], asOf: moment(1))
        let generation = feed.nextGeneration()
        feed.adopt(plan, own: rings[0], generation: generation)
        #expect(eventually { listener.keys.withLock { $0?.generation } == generation })
        #expect(listener.keys.withLock { $0?.own?.active.kid } == rings[2].active.kid)
        feed.stop()
    }

    @Test func aReloadKeepsUnchangedSourcesAndIsNumbered() throws {
        let server = try TinyServer(["/one": TinyServer.answer(jwks), "/two": TinyServer.answer(Self.otherJWKS)])
        let first = plan(server.url("/one"))
        let listener = Listener()
        let feed = try feed(first, listener)
        #expect(eventually { listener.kids("t0") == ["a"] })
        let second = plan(server.url("/one"), server.url("/two"))
        let before = listener.keys.withLock { $0 }
        let keys = try KeySetRefresher.load(second, at: EventLoop.now(), earlier: before)
        #expect(keys.outside["t0"]?.keys.map(\.kid) == ["a"])
        let generation = feed.nextGeneration()
        feed.adopt(second, own: try #require(keys.own), generation: generation)
        #expect(eventually { listener.kids("t1") == ["b"] })
        #expect(listener.keys.withLock { $0?.generation } == generation)
        #expect(listener.kids("t0") == ["a"])
        #expect(server.count("/one") == 1)
        feed.stop()
        server.stop()
    }

    /// A reload reads the files anew, and what the feed then publishes for it is no older.
    @Test func aReloadDoesNotBringBackWhatAFileHeldBefore() throws {
        let path = folder.path + "/k.json"
        try FileBytes.write(jwks, to: path)
        let plan = plan(path)
        let (listener, told) = (Listener(), Mailboxes())
        let feed = try KeySetRefresher(
            plan, own: try #require(try KeySetRefresher.load(plan, at: EventLoop.now()).own),
            onChange: { keys in
                told.add("\(keys.generation) \(keys.outside["t0"]?.keys.compactMap(\.kid) ?? [])")
                listener.keys.withLock { $0 = keys }
            }, onEvent: { _ in })
        #expect(eventually { listener.kids("t0") == ["a"] })
        try FileBytes.write(Self.otherJWKS, to: path)
        let keys = try KeySetRefresher.load(plan, at: EventLoop.now())
        #expect(keys.outside["t0"]?.keys.map(\.kid) == ["b"])
        let generation = feed.nextGeneration()
        feed.adopt(plan, own: try #require(keys.own), generation: generation)
        #expect(eventually { listener.keys.withLock { $0?.generation } == generation })
        feed.stop()
        #expect(told.all.filter { $0.hasPrefix("\(generation) ") } == ["\(generation) [\"b\"]"])
    }

    /// A feed for its own callbacks.
    private final class Box: Sendable {
        private let value = Mutex<KeySetRefresher?>(nil)
        var feed: KeySetRefresher? {
            get { value.withLock { $0 } }
            set { value.withLock { $0 = newValue } }
        }
    }

    /// A sign-in that waits for a fetch takes the keys that are in force when it is counted.
    @Test func keysAreInForceWhenTheirFetchIsCounted() throws {
        let server = try TinyServer(["/jwks": TinyServer.answer(jwks)])
        let plan = plan(server.url("/jwks"))
        let (box, counted, listener) = (Box(), Mailboxes(), Listener())
        let feed = try KeySetRefresher(
            plan, own: try #require(try KeySetRefresher.load(plan, at: EventLoop.now()).own),
            onChange: { keys in
                guard keys.outside["t0"] != nil, eventually({ box.feed != nil }) else { return }
                counted.add("\(box.feed?.statuses.first?.fetches ?? 0)")
                listener.keys.withLock { $0 = keys }
            }, onEvent: { _ in })
        box.feed = feed
        #expect(eventually { listener.kids("t0") == ["a"] && feed.statuses.first?.fetches == 1 })
        #expect(counted.all == ["0"])
        feed.stop()
        box.feed = nil
        server.stop()
    }

    /// The next connection to `listener`, whose request has come.
    private func accept(_ listener: Socket) throws -> Socket {
        var found: Socket?
        _ = eventually {
            if case .accepted(let socket, _) = listener.accept() { found = socket }
            return found != nil
        }
        let connection = try #require(found)
        var request = ByteBuffer()
        #expect(
            eventually {
                _ = connection.receive(into: &request, upTo: 8_192)
                return request.readable.text.hasSuffix("\r\n\r\n")
            })
        return connection
    }

    /// Answers a fetch, and waits until it has ended.
    private func answer(_ connection: Socket, _ body: [UInt8]) {
        _ = connection.send(TinyServer.answer(body).rawBytes)
        var rest = ByteBuffer()
        #expect(
            eventually {
                if case .closed = connection.receive(into: &rest, upTo: 8_192) { true } else { false }
            })
        connection.close()
    }

    /// Two reloads take an issuer away and bring it back while its keys are fetched: the fetch of the second time counts.
    @Test func aFetchFromBeforeItsLineWasTakenAwayIsIgnored() throws {
        let socket = try Socket.listen(on: try #require(SocketAddress(parsing: "127.0.0.1:0")))
        let plan = plan("http://127.0.0.1:\(try #require(try socket.localAddress().port))/")
        let (without, listener) = (self.plan(), Listener())
        let feed = try feed(plan, listener)
        let own = try #require(try KeySetRefresher.load(plan, at: EventLoop.now()).own)
        func adopt(_ plan: IssuersPlan) {
            let generation = feed.nextGeneration()
            feed.adopt(plan, own: own, generation: generation)
            #expect(eventually { listener.keys.withLock { $0?.generation } == generation })
        }
        let first = try accept(socket)
        adopt(without)
        adopt(plan)
        answer(try accept(socket), Self.otherJWKS)
        #expect(eventually { listener.kids("t0") == ["b"] })
        answer(first, jwks)
        // Orders are obeyed after the ends that were seen before.
        adopt(plan)
        #expect(listener.kids("t0") == ["b"])
        feed.stop()
        socket.close()
    }

    @Test func aFeedEndsAtOnceThoughAnIssuerHangs() throws {
        // Listens and never answers.
        let socket = try Socket.listen(on: try #require(SocketAddress(parsing: "127.0.0.1:0")))
        let port = try #require(try socket.localAddress().port)
        let feed = try feed(plan("http://127.0.0.1:\(port)/"), Listener())
        let begin = EventLoop.now().monotonic
        feed.stop()
        // A fetch that is waited for takes ten.
        #expect(EventLoop.now().monotonic.nanoseconds(since: begin) < 9_000_000_000)
        socket.close()
    }

    @Test func theClockOfAnIssuersServerIsReported() throws {
        let server = try TinyServer([
            "/plain": TinyServer.answer(jwks, fields: "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            // A cache has kept it for a minute.
            "/cached": TinyServer.answer(jwks, fields: "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nAge: 60\r\n"),
            "/silent": TinyServer.answer(jwks), "/wrong": TinyServer.answer(jwks, fields: "Date: yesterday\r\n"),
        ])
        let configuration = plan(
            server.url("/plain"), server.url("/cached"), server.url("/silent"), server.url("/wrong"))
        let told = Mailboxes()
        let keys = try KeySetRefresher.load(configuration, at: EventLoop.now())
        let feed = try KeySetRefresher(
            configuration, own: try #require(keys.own), onChange: { _ in }, onEvent: { _ in },
            onClock: { issuer, date, _ in told.add("\(issuer) \(date.seconds)") })
        #expect(eventually { feed.statuses.count == 4 && feed.statuses.allSatisfy { $0.fetches > 0 } })
        #expect(told.all.sorted() == ["t0 784111777", "t1 784111837"])
        feed.stop()
        server.stop()
    }

    @Test func whatFollowsWithoutKeysIsSaidOfIssuersAndProviders() throws {
        let own = try KeySetRefresher.load(plan("http://127.0.0.1:1/"), at: EventLoop.now()).own
        let start = Moment(monotonic: moment(0), wall: WallTime(seconds: 1_000_000))
        for (isProvider, words) in [
            (false, "there are no keys, its tokens get 503"), (true, "there are no keys, sign-ins by its ID tokens fail"),
        ] {
            var plan = plan("http://127.0.0.1:1/")
            plan.outside[0].isProvider = isProvider
            var sources = KeySources(plan, own: own, earlier: nil, at: start)
            sources.failed(0, "nobody answers", at: start, jitter: 0)
            #expect(sources.events.last?.message.hasSuffix(words) == true, "\(sources.events)")
            sources.events.removeAll()
        }
    }

    /// After a day without a response the keys are dropped from snapshots.
    @Test func keysThatCouldNotBeConfirmedForADayAreForgotten() throws {
        let configuration = plan("http://127.0.0.1:1/")
        let own = try KeySetRefresher.load(configuration, at: EventLoop.now()).own
        let start = Moment(monotonic: moment(0), wall: WallTime(seconds: 1_000_000))
        var sources = KeySources(configuration, own: own, earlier: nil, at: start)
        #expect(sources.nextStep(now: moment(0))?.step == .fetch)
        let hasChanged = sources.fetched(0, FetchedDocument(body: jwks), at: start, jitter: 0)
        #expect(hasChanged)
        var now: UInt64 = 300
        while now < 86_400 {
            while let step = sources.nextStep(now: moment(now))?.step {
                #expect(step == .fetch)
                sources.failed(0, "nobody answers", at: Moment(monotonic: moment(now), wall: start.wall), jitter: 0)
            }
            #expect(sources.snapshot(generation: 0).outside["t0"]?.keys.count == 1)
            now += 1_000
        }
        let last = sources.nextStep(now: moment(86_400))
        #expect(last?.step == .dropKeys)
        sources.dropKeys(0)
        #expect(sources.snapshot(generation: 0).outside["t0"] == nil)
        #expect(sources.events.last?.level == .error)
        sources.events.removeAll()
    }
}
