import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// A cache with tokens that stand for users; only the first goes through the verifier, for one identity serves all.
private struct CacheBench: ~Copyable {
    var cache: TokenCache
    let identity: Identity
    let seconds = AdmissionHarness.now.wall.seconds
    static let key = Array("kid-1".utf8)

    init(capacity: Int, hashMask: UInt64 = .max) {
        cache = TokenCache(capacity: capacity, hash: KeyedHash(first: 3, second: 4), hashMask: hashMask)
        identity = Self.identity(AdmissionHarness.token())
    }

    static func identity(_ token: String, key: SigningKey = AdmissionHarness.key) -> Identity {
        var verifier = TokenVerifier()
        let trust = AdmissionHarness.trust([AdmissionHarness.trusted(key)])
        let result = token.withRawBytes { verifier.verify($0, trust: trust, now: AdmissionHarness.now.wall) }
        var edits = FieldEdits()
        guard case .success(let verified) = result,
            let identity = token.withRawBytes({ text in
                Identity(verified, text, trust: trust, tiers: .standard, hash: KeyedHash(first: 3, second: 4), edits: &edits)
            })
        else { preconditionFailure("\(result)") }
        return identity
    }

    mutating func insert(_ token: String, _ fields: String = "fields", identity: Identity? = nil) {
        let identity = identity ?? self.identity
        token.withRawBytes { token in
            fields.withRawBytes { _ = cache.insert(token, identity, key: Self.key.rawBytes, fields: $0, at: seconds) }
        }
    }

    /// The fields of a token that is there.
    mutating func lookup(_ token: String, at seconds: Int64? = nil) -> String? {
        let entry = token.withRawBytes { cache.lookup($0, at: seconds ?? self.seconds) }
        guard entry >= 0 else { return nil }
        var edits = FieldEdits()
        var key = ByteBuffer()
        cache.append(entry, to: &edits, key: &key)
        #expect(key.readable.array == Self.key)
        return edits.http1.text
    }
}

@Suite struct TokenCacheTests {
    @Test func fiftyThousandUsersInTurnAreAllHitsAfterTheFirstPass() {
        var bench = CacheBench(capacity: 65_536)
        for pass in 0..<3 {
            var misses = 0
            for user in 0..<50_000 {
                let token = "header.payload-of-\(user).signature-\(user &* 7_919)"
                if bench.lookup(token) == nil {
                    misses += 1
                    bench.insert(token)
                }
            }
            #expect(misses == (pass == 0 ? 50_000 : 0))
        }
        #expect(bench.cache.count == 50_000)
        #expect(bench.cache.evictions == 0)
    }

    @Test func aFullCacheEvictsAnUnusedToken() {
        var bench = CacheBench(capacity: 100)
        for user in 0..<100 { bench.insert("token-\(user)") }
        for user in 0..<50 { #expect(bench.lookup("token-\(user)") != nil) }
        for user in 100..<150 { bench.insert("token-\(user)") }
        #expect(bench.cache.count == 100)
        #expect(bench.cache.evictions == 50)
        #expect((0..<50).filter { bench.lookup("token-\($0)") == nil } == [])
        #expect((50..<100).filter { bench.lookup("token-\($0)") != nil } == [])
        #expect((100..<150).filter { bench.lookup("token-\($0)") == nil } == [])
    }

    @Test func expiredTokensAreEvictedFirst() {
        var bench = CacheBench(capacity: 10)
        let short = CacheBench.identity(AdmissionHarness.token(lifetime: 5))
        for user in 0..<10 { bench.insert("token-\(user)", identity: user < 5 ? short : nil) }
        for user in 0..<10 { _ = bench.lookup("token-\(user)") }
        for user in 10..<15 {
            "token-\(user)".withRawBytes { token in
                "".withRawBytes {
                    _ = bench.cache.insert(token, bench.identity, key: CacheBench.key.rawBytes, fields: $0, at: bench.seconds + 6)
                }
            }
        }
        #expect((5..<15).filter { bench.lookup("token-\($0)", at: bench.seconds + 6) == nil } == [])
    }

    @Test func anExpiredTokenIsNoHit() {
        var bench = CacheBench(capacity: 10)
        bench.insert("token")
        let expiry = bench.identity.expiresAt
        #expect(bench.lookup("token", at: expiry - 1) != nil)
        #expect(bench.lookup("token", at: expiry) == nil)
        #expect(bench.cache.count == 0)
        #expect(bench.lookup("token", at: expiry - 1) == nil)
        let stale = CacheBench.identity(AdmissionHarness.token(lifetime: -10))
        bench.insert("stale", identity: stale)
        #expect(bench.lookup("stale") == nil)
    }

    /// With one hash for all, only the comparison of the token stands between users.
    @Test(arguments: [0, 1, 0xFFFF_FFFF_0000_0000] as [UInt64])
    func aTokenIsNeverAnsweredForAnother(_ hashMask: UInt64) {
        var bench = CacheBench(capacity: 300, hashMask: hashMask)
        for user in 0..<300 { bench.insert("token-\(user)", "block-\(user)") }
        for user in 0..<300 { #expect(bench.lookup("token-\(user)") == "block-\(user)") }
        for stranger in ["token-300", "token-", "token-1x", "xtoken-1", "", "token-29"] {
            #expect((bench.lookup(stranger) == nil) == (stranger != "token-29"), "\(stranger)")
        }
    }

    @Test func theSameEndingIsNotTheSameToken() {
        var bench = CacheBench(capacity: 10)
        let ending = String(repeating: "s", count: 100)
        bench.insert("a" + ending, "first")
        #expect(bench.lookup("b" + ending) == nil)
        #expect(bench.lookup("aa" + ending) == nil)
        bench.insert("b" + ending, "second")
        #expect(bench.lookup("a" + ending) == "first")
        #expect(bench.lookup("b" + ending) == "second")
    }

    @Test func aTokenKeptAgainReplacesItself() {
        var bench = CacheBench(capacity: 10)
        bench.insert("token", "first")
        bench.insert("token", "second")
        #expect(bench.cache.count == 1)
        #expect(bench.lookup("token") == "second")
    }

    @Test func retiredKeysTakeTheirTokensWithThem() {
        var bench = CacheBench(capacity: 100)
        let other = CacheBench.identity(AdmissionHarness.token(key: AdmissionHarness.otherKey), key: AdmissionHarness.otherKey)
        for user in 0..<100 { bench.insert("token-\(user)", identity: user % 2 == 0 ? nil : other) }
        bench.cache.drop([IssuerKey(issuer: 0, serial: bench.identity.keySerial), IssuerKey(issuer: 1, serial: other.keySerial)])
        for user in 0..<100 { #expect((bench.lookup("token-\(user)") != nil) == (user % 2 == 1)) }
        bench.cache.drop([IssuerKey(issuer: 0, serial: other.keySerial)])
        #expect(bench.cache.count == 0)
    }

    /// Every sequence of operations against a plain dictionary.
    @Test(arguments: [UInt64.max, 7, 0])
    func itAgreesWithADictionary(_ hashMask: UInt64) {
        var random = SplitMix64(seed: hashMask ^ 12)
        var bench = CacheBench(capacity: 1_000, hashMask: hashMask)
        let short = CacheBench.identity(AdmissionHarness.token(lifetime: 5))
        var model: [String: String] = [:]
        for step in 0..<6_000 {
            let token = "t\(random.next() % 400)"
            switch random.next() % 8 {
            case 0..<4: #expect(bench.lookup(token) == model[token])
            case 4..<7:
                bench.insert(token, "\(step)")
                model[token] = "\(step)"
            default:
                // Kept, and looked up when its time is over.
                bench.insert(token, "short", identity: short)
                #expect(bench.lookup(token, at: bench.seconds + 5) == nil)
                model[token] = nil
            }
            #expect(bench.cache.count == model.count)
        }
    }
}
