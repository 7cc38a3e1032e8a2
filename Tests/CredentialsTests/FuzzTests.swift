import Testing
import Wire

@testable import Credentials

/// Damages bytes in the ways that networks and attackers do.
struct Mutator {
    var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    mutating func below(_ bound: Int) -> Int { Int(random.next() % UInt64(max(1, bound))) }

    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) } }

    /// `input` with one to four changes; `words` are pasted in now and then.
    mutating func mutate(_ input: [UInt8], _ words: [[UInt8]]) -> [UInt8] {
        var bytes = input
        for _ in 0...below(3) { change(&bytes, words) }
        return bytes
    }

    private mutating func change(_ bytes: inout [UInt8], _ words: [[UInt8]]) {
        let at = below(bytes.count)
        switch below(7) {
        case 0 where !bytes.isEmpty: bytes[at] ^= 1 << UInt8(below(8))
        case 1 where !bytes.isEmpty: bytes[at] = UInt8(truncatingIfNeeded: random.next())
        case 2 where !bytes.isEmpty: bytes.removeSubrange(at..<min(bytes.count, at + 1 + below(8)))
        case 3: bytes.insert(contentsOf: words[below(words.count)], at: at)
        case 4: bytes.insert(contentsOf: bytes[at..<min(bytes.count, at + below(40))], at: below(bytes.count))
        case 5: bytes = Array(bytes.prefix(at))
        case _: bytes += words[below(words.count)]
        }
    }
}

/// No input traps, and only genuine tokens are verified.
@Suite struct FuzzTests {
    private let keys = [Keys.hs256, Keys.rs256, Keys.es256, Keys.eddsa]

    private static let words: [[UInt8]] =
        [
            ".", "..", "=", "e30", "eyJhbGciOiJub25lIn0", "\"", "\\", "\\u0000", "\\ud83d\\ude00", "{", "}", "[", "]", ":", ",", "null",
            "1e999", "-", "\"exp\":1700000600", "\"iss\":\"https://issuer.test\"", "\"alg\":\"none\"", "\"crit\":[]", "\u{0}", "\r\n",
            "é", "\"kid\":\"x\"", "\"sub\":\"x\"", "99999999999999999999", " ",
        ].map { Array($0.utf8) } + [[0xFF], [0xC0, 0x80], [UInt8](repeating: 0x5B, count: 40)]

    @Test func arbitraryBytesAreNeverAToken() {
        var mutator = Mutator(seed: 1)
        var verifier = TokenVerifier()
        let trusted = trust(keys)
        for round in 0..<20_000 {
            var bytes: [UInt8] = []
            if round % 2 == 0 {
                bytes = mutator.bytes(mutator.below(300))
            } else {
                for _ in 0..<mutator.below(12) { bytes += Self.words[mutator.below(Self.words.count)] }
            }
            let result = verifier.verify(bytes.rawBytes, trust: trusted, now: WallTime(seconds: now))
            #expect(result.fault != nil)
        }
    }

    @Test func aDamagedTokenIsNeverVerified() {
        var mutator = Mutator(seed: 2)
        var verifier = TokenVerifier()
        let trusted = trust(keys)
        let tokens = keys.map { Forge.token(key: $0).bytes }
        let words = Self.words + tokens
        var damaged = 0
        for round in 0..<20_000 {
            // Mostly HMAC, which costs least.
            let token = tokens[round % 20 == 0 ? mutator.below(tokens.count) : 0]
            let bytes = mutator.mutate(token, words)
            let result = verifier.verify(bytes.rawBytes, trust: trusted, now: WallTime(seconds: now))
            if tokens.contains(bytes) { continue }
            damaged += 1
            #expect(result.fault != nil, "\(String(decoding: bytes, as: UTF8.self))")
        }
        #expect(damaged > 15_000)
        for token in tokens {
            let result = verifier.verify(token.rawBytes, trust: trusted, now: WallTime(seconds: now))
            #expect(result.fault == nil)
        }
    }

    /// The texts of a verified token are safe in headers, whatever its issuer wrote.
    @Test func identityTextsAreSafeForAnySignedToken() {
        var mutator = Mutator(seed: 3)
        var verifier = TokenVerifier()
        let trusted = trust(keys, requirements: [ClaimRequirement(name: "a", value: "x")])
        let payload = Array(
            #"{"iss":"https://issuer.test","aud":["api","b"],"sub":"u1","exp":1700000600,"email":"a@b","tier":"x","sid":"s","a":["x",{"b":[1.5e3]}],"nbf":1}"#
                .utf8)
        var verified = 0
        for _ in 0..<15_000 {
            let input = #"{"alg":"HS256"}"#.base64URL + "." + Base64URL.encode(mutator.mutate(payload, Self.words).rawBytes)
            let token = (input + "." + Forge.signature(of: input, Keys.hs256, .HS256)).bytes
            let result = verifier.verify(token.rawBytes, trust: trusted, now: WallTime(seconds: now))
            guard case .success(let identity) = result else { continue }
            verified += 1
            let isUserSafe = IdentityTexts.isHeaderText(identity.userID) && identity.userID.byteCount > 0
            let areOthersSafe =
                IdentityTexts.isHeaderText(identity.email) && IdentityTexts.isHeaderText(identity.tier)
                && IdentityTexts.isHeaderText(identity.sessionID)
            #expect(isUserSafe && areOthersSafe)
        }
        #expect(verified > 500)
    }

    @Test func damagedHeadersNeverTrap() {
        var mutator = Mutator(seed: 4)
        var verifier = TokenVerifier()
        let trusted = trust(keys)
        let header = Array(#"{"alg":"HS256","typ":"JWT","kid":"\#(Keys.hs256.kid!)","x5c":["AA"],"jwk":{"kty":"oct"}}"#.utf8)
        for _ in 0..<15_000 {
            let text = Base64URL.encode(mutator.mutate(header, Self.words).rawBytes)
            let input = text + "." + Forge.claims.base64URL
            let token = (input + "." + Forge.signature(of: input, Keys.hs256, .HS256)).bytes
            let result = verifier.verify(token.rawBytes, trust: trusted, now: WallTime(seconds: now))
            switch result {
            case .success, .failure: continue
            }
        }
    }

    @Test func damagedKeySetsNeverTrap() throws {
        var mutator = Mutator(seed: 5)
        var ring = try SigningKeyRing.generate(.ES256, now: WallTime(seconds: now))
        try ring.rotate(to: .EdDSA, lifetimeSeconds: 60, now: WallTime(seconds: now))
        let ours = String(decoding: ring.jwks(now: WallTime(seconds: now)), as: UTF8.self).dropLast(2)
        let rsa = Vector.all.first { $0.algorithm == .RS256 }!.jwk
        let document = Array((ours + "," + rsa + #",{"kty":"oct","k":"\#(String(repeating: "A", count: 43))"}]}"#).utf8)
        #expect(try jwksKeySet(document).keys.count == 5)
        var usable = 0
        for _ in 0..<2_000 {
            do throws(KeyFault) { usable += try jwksKeySet(mutator.mutate(document, Self.words)).keys.count } catch { continue }
        }
        #expect(usable > 0)
    }

    @Test func damagedPEMAndRingFilesNeverTrap() throws {
        var mutator = Mutator(seed: 6)
        let ring = try SigningKeyRing.generate(.ES256, now: WallTime(seconds: now))
        let file = try ring.serialised()
        let words = Self.words + ["-----BEGIN ", "-----END ", "-----\n", "# key ", "\n\n", "PRIVATE KEY", "=="].map { Array($0.utf8) }
        var usable = 0
        for _ in 0..<2_000 {
            let bytes = mutator.mutate(file, words)
            do throws(KeyFault) {
                usable += try SigningKeyRing(parsing: bytes.rawBytes).entries.count
                usable += try pemKeySet(bytes).keys.count
            } catch {
                continue
            }
        }
        #expect(usable > 0)
    }
}
