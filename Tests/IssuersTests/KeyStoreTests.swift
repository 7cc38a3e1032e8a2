import Credentials
import System
import Testing
import Threads
import Wire
import Workbench

@testable import Issuers

@Suite struct KeyStoreTests {
    private let now = WallTime(seconds: 1_800_000_000)

    @Test func keysAreMadeAtTheFirstStartAndKeptForTheNext() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataDirectory: folder.path)
        #expect(try store.load() == nil)
        let made = try store.loadOrGenerate(.ES256, now: now)
        #expect(made.active.algorithm == .ES256)
        let kept = try store.loadOrGenerate(.EdDSA, now: now)
        #expect(kept.active.kid == made.active.kid)
    }

    @Test func onlyTheOwnerMayReadThem() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataDirectory: folder.path + "/new/data")
        _ = try store.loadOrGenerate(.ES256, now: now)
        #expect(try FileBytes.stamp(store.folder).mode == 0o700)
        #expect(try FileBytes.stamp(store.path).mode == 0o600)
        #expect(Set(TemporaryFolder.names(store.folder)) == ["ring.pem", "lock"])
    }

    @Test func processesThatStartAtOnceEndUpWithTheSameKeys() throws {
        let folder = try TemporaryFolder()
        let path = folder.path
        let found = Mailboxes()
        let start = WallTime(seconds: 1_800_000_000)
        let threads = try (0..<8).map { index in
            try WorkerThread(name: "start\(index)") {
                do throws(KeyStoreFault) {
                    found.add(try KeyStore(dataDirectory: path).loadOrGenerate(.ES256, now: start).active.kid ?? "")
                } catch {
                    found.add(error.description)
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(found.all.count == 8)
        #expect(Set(found.all).count == 1)
    }

    @Test func rotationsAtOnceLoseNoKey() throws {
        let folder = try TemporaryFolder()
        let path = folder.path
        let start = WallTime(seconds: 1_800_000_000)
        _ = try KeyStore(dataDirectory: path).loadOrGenerate(.ES256, now: start)
        let threads = try (0..<5).map { index in
            try WorkerThread(name: "rotate\(index)") {
                do {
                    _ = try KeyStore(dataDirectory: path).rotate(to: .ES256, clockSkewSeconds: 30, now: start)
                } catch {
                    Issue.record(error)
                }
            }
        }
        for thread in threads { thread.join() }
        let ring = try #require(try KeyStore(dataDirectory: path).load())
        #expect(ring.entries.count == 7)
        #expect(Set(ring.entries.map { $0.key.kid }).count == 7)
    }

    @Test func theOldKeyVerifiesUntilItsLastTokenEnds() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataDirectory: folder.path)
        let old = try store.loadOrGenerate(.ES256, now: now).active.kid
        let next = try store.load()?.entries.first { $0.state == .next }?.key.kid
        let ring = try store.rotate(to: .ES256, clockSkewSeconds: 30, now: now)
        #expect(ring.active.kid == next)
        let until = now.seconds + 7 * 86_400 + 30
        #expect(ring.entries.first { $0.key.kid == old }?.state == .retired(until: until))
        #expect(ring.keySet(now: WallTime(seconds: until - 1)).keys.contains { $0.kid == old })
        #expect(!ring.keySet(now: WallTime(seconds: until + 1)).keys.contains { $0.kid == old })
    }

    @Test func aSecretTakesTheirPlace() throws {
        let folder = try TemporaryFolder()
        let plan = IssuersPlan(dataDirectory: folder.path, ownSecret: sharedSecret, algorithm: .ES256, sharing: nil, outside: [])
        let ring = try KeyStore.open(plan, now: now)
        #expect(ring.active.algorithm == .HS256)
        #expect(TemporaryFolder.names(folder.path) == [])
        #expect(ring.jwks(now: now).rawBytes.text == #"{"keys":[]}"#)
    }

    @Test func aFileThatIsNoKeyRingIsRefusedAndLeftAlone() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataDirectory: folder.path)
        try FileBytes.makeDirectory(store.folder)
        try FileBytes.write(Array("nonsense".utf8), to: store.path)
        #expect(throws: KeyStoreFault.self) { try store.loadOrGenerate(.ES256, now: now) }
        #expect(try FileBytes.read(store.path, limit: 100) == Array("nonsense".utf8))
    }

    @Test func aFolderThatCannotBeMadeIsASentence() throws {
        let folder = try TemporaryFolder()
        try FileBytes.write([], to: folder.path + "/file")
        do {
            _ = try KeyStore(dataDirectory: folder.path + "/file").loadOrGenerate(.ES256, now: now)
            Issue.record("keys in a file that is no folder")
        } catch {
            #expect(error.description.hasSuffix("set TOLLGATE_DATA_DIR to a folder that can be written"))
        }
    }
}

@Suite struct KeyCacheTests {
    private let now = WallTime(seconds: 1_800_000_000)

    @Test func aCachedKeySetIsLoadedWithItsAge() throws {
        let folder = try TemporaryFolder()
        let cache = KeyCache(dataDirectory: folder.path)
        try cache.save("t", url: "https://i/\"x\"", document: jwksOfA, now: now)
        let later = WallTime(seconds: now.seconds + 100)
        let kept = try #require(cache.load("t", url: "https://i/\"x\"", now: later))
        #expect(kept.fetchedAt == now)
        #expect(kept.keys.keys.map(\.kid) == ["a"])
        #expect(try FileBytes.stamp(folder.path + "/jwks/t.json").mode == 0o600)
    }

    @Test func staleEntriesAndThoseOfAnotherURLAreIgnored() throws {
        let folder = try TemporaryFolder()
        let cache = KeyCache(dataDirectory: folder.path)
        try cache.save("t", url: "https://i", document: jwksOfA, now: now)
        #expect(cache.load("t", url: "https://other", now: now) == nil)
        #expect(cache.load("u", url: "https://i", now: now) == nil)
        #expect(cache.load("t", url: "https://i", now: WallTime(seconds: now.seconds + 86_400)) == nil)
    }

    @Test(arguments: [
        "", "{}", "[]", "{\"url\":\"https://i\"}", "{\"url\":\"https://i\",\"fetched_at\":1800000000,\"jwks\":{\"keys\":[]}}",
        "{\"url\":\"https://i\",\"fetched_at\":-1,\"jwks\":{}}", "{\"url\":1,\"fetched_at\":1}", "nonsense",
    ])
    func aBrokenFileCountsAsNone(_ text: String) throws {
        let folder = try TemporaryFolder()
        try FileBytes.makeDirectory(folder.path + "/jwks")
        try FileBytes.write(Array(text.utf8), to: folder.path + "/jwks/t.json")
        #expect(KeyCache(dataDirectory: folder.path).load("t", url: "https://i", now: now) == nil)
    }
}
