import Foundation
import Testing
import Wire

@testable import Credentials

private let day: Int64 = 86_400

private func at(_ seconds: Int64) -> WallTime { WallTime(seconds: now + seconds) }

/// A chain as the store has it, or with a fault.
private struct Chain {
    var root = CertificateDraft(name: "Root", notBefore: at(-10 * day), notAfter: at(10 * day), isAuthority: true)
    var intermediate = CertificateDraft(
        name: "Intermediate", notBefore: at(-9 * day), notAfter: at(9 * day), isAuthority: true,
        markers: [StoreSignatures.intermediateMarker])
    var leaf = CertificateDraft(
        name: "Leaf", notBefore: at(-8 * day), notAfter: at(8 * day), isAuthority: false, markers: [StoreSignatures.leafMarker])
    var leafKey = Keys.es256
    var rootKey = Keys.es384
    /// Signs the leaf in place of the intermediate's key.
    var strayKey: SigningKey?
    var x5c: ([[UInt8]]) -> [String] = { $0.map { Base64.encode($0.rawBytes, isPadded: true) } }
    var header: (String) -> String = { #"{"alg":"ES256","x5c":\#($0)}"# }
    var payload = #"{"bundleId":"b","signedDate":\#(now * 1000)}"#
    var edit: (String) -> String = { $0 }

    static let middleKey = Keys.make(.ES384)

    func certificates() throws(KeyFault) -> [[UInt8]] {
        let first = try root.certificate(of: rootKey, by: nil)
        let second = try intermediate.certificate(of: Self.middleKey, by: (first, rootKey))
        return [try leaf.certificate(of: leafKey, by: (second, strayKey ?? Self.middleKey)), second, first]
    }

    /// The token, and a verifier that pins this chain's root.
    func made() throws -> (String, StoreSignatures) {
        let chain = try certificates()
        let names = x5c(chain).map { "\"\($0)\"" }.joined(separator: ",")
        let token = Forge.token(header: header("[\(names)]"), payload: payload, key: leafKey)
        let anchor = chain[2]
        return (edit(token), StoreSignatures(roots: [Digest.sha256(anchor.rawBytes)]))
    }

    func fault(at time: Int64 = now) throws -> StoreSignatureFault? {
        let (token, signatures) = try made()
        return judge(token, signatures, at: time)
    }

    func with(_ change: (inout Self) -> Void) -> Self {
        var chain = self
        change(&chain)
        return chain
    }
}

private func judge(_ token: String, _ signatures: StoreSignatures, at time: Int64 = now) -> StoreSignatureFault? {
    let bytes = token.bytes
    do throws(StoreSignatureFault) {
        _ = try signatures.payload(of: bytes.rawBytes, now: WallTime(seconds: time))
        return nil
    } catch { return error }
}

@Suite struct StoreSignatureTests {
    @Test func thePayloadIsThatOfTheSignature() throws {
        let (token, signatures) = try Chain().made()
        let bytes = token.bytes
        #expect(try signatures.payload(of: bytes.rawBytes, now: WallTime(seconds: now)) == Chain().payload.bytes)
        #expect(judge(token, StoreSignatures()) == .root)
    }

    @Test func everyFaultOfAChainIsFound() throws {
        let ends: [WritableKeyPath<Chain, CertificateDraft>] = [\.leaf, \.intermediate, \.root]
        var cases: [(String, StoreSignatureFault?, Chain)] = ends.enumerated().flatMap { index, end in
            [
                ("\(index) has ended", .untrusted, Chain().with { $0[keyPath: end].notAfter = at(-1) }),
                ("\(index) has not begun", .untrusted, Chain().with { $0[keyPath: end].notBefore = at(1) }),
                ("\(index) is in its first second", nil, Chain().with { $0[keyPath: end].notBefore = at(0) }),
                ("\(index) is in its last second", nil, Chain().with { $0[keyPath: end].notAfter = at(0) }),
            ]
        }
        cases += [
            ("no marker of the leaf", .marker, Chain().with { $0.leaf.markers = [] }),
            ("no marker of the intermediate", .marker, Chain().with { $0.intermediate.markers = [] }),
            (
                "each other's marker", .marker,
                Chain().with {
                    ($0.leaf.markers, $0.intermediate.markers) = ([StoreSignatures.intermediateMarker], [StoreSignatures.leafMarker])
                }
            ),
            (
                "the marker twice", .marker,
                Chain().with { $0.leaf.markers = [StoreSignatures.leafMarker, StoreSignatures.leafMarker] }
            ),
            ("an intermediate that may not issue", .untrusted, Chain().with { $0.intermediate.isAuthority = false }),
            ("a root that may not issue", .untrusted, Chain().with { $0.root.isAuthority = false }),
            ("a leaf of another key", .untrusted, Chain().with { $0.strayKey = Keys.es384 }),
            ("a leaf on P-384", .key, Chain().with { $0.leafKey = Keys.es384 }),
            ("an RSA leaf", .key, Chain().with { $0.leafKey = Keys.rs256 }),
        ]
        for (name, expected, chain) in cases { #expect(try chain.fault() == expected, "\(name)") }
    }

    @Test func theHeaderIsThreeCertificatesAndES256() throws {
        let encode = { (chain: [[UInt8]]) in chain.map { Base64.encode($0.rawBytes, isPadded: true) } }
        let lists: [(String, StoreSignatureFault?, ([[UInt8]]) -> [String])] = [
            ("two", .chain, { encode([$0[0], $0[1]]) }), ("four", .chain, { encode($0 + [$0[2]]) }), ("none", .chain, { _ in [] }),
            ("the root first", .root, { encode($0.reversed()) }), ("the intermediate twice", .root, { encode([$0[0], $0[1], $0[1]]) }),
            ("the root twice", .untrusted, { encode([$0[0], $0[2], $0[2]]) }),
            ("the leaf twice", .untrusted, { encode([$0[0], $0[0], $0[2]]) }),
            ("a byte behind the root", .root, { encode([$0[0], $0[1], $0[2] + [0]]) }),
            ("no certificate", .chain, { encode([[0x30, 0x00], $0[1], $0[2]]) }),
            ("empty", .chain, { ["", encode($0)[1], encode($0)[2]] }),
            ("a line end", .chain, { [encode($0)[0] + "\\n", encode($0)[1], encode($0)[2]] }),
            ("base64url", .chain, { encode($0).map { $0.replacing("+", with: "-").replacing("/", with: "_") } }),
        ]
        for (name, expected, list) in lists { #expect(try Chain().with { $0.x5c = list }.fault() == expected, "\(name)") }
        let headers: [(StoreSignatureFault?, (String) -> String)] = [
            (nil, { #"{"x5c":\#($0),"alg":"ES256","typ":"JWT","kid":"a","jku":"https://forger.test","b64":true}"# }),
            (.algorithm, { #"{"alg":"ES384","x5c":\#($0)}"# }), (.algorithm, { #"{"alg":"none","x5c":\#($0)}"# }),
            (.algorithm, { #"{"alg":"es256","x5c":\#($0)}"# }), (.algorithm, { #"{"x5c":\#($0)}"# }),
            (.algorithm, { #"{"alg":"ES256","x5c":\#($0),"crit":["exp"]}"# }),
            (.algorithm, { #"{"alg":"ES256","x5c":\#($0),"b64":false}"# }),
            (.malformed, { #"{"alg":"ES256","x5c":\#($0),"kid":1}"# }), (.malformed, { #"{"alg":"ES256","alg":"ES256","x5c":\#($0)}"# }),
            (.malformed, { #"[{"alg":"ES256","x5c":\#($0)}]"# }), (.chain, { _ in #"{"alg":"ES256"}"# }),
            (.chain, { _ in #"{"alg":"ES256","x5c":"abc"}"# }), (.chain, { _ in #"{"alg":"ES256","x5c":[1,2,3]}"# }),
            (.chain, { #"{"alg":"ES256","x5c":[\#($0)]}"# }),
        ]
        for (index, (expected, header)) in headers.enumerated() {
            #expect(try Chain().with { $0.header = header }.fault() == expected, "header \(index)")
        }
    }

    @Test func thePayloadSaysWhenItWasSigned() throws {
        let cases: [(StoreSignatureFault?, String)] = [
            (nil, #"{"signedDate":\#((now + 300) * 1000)}"#), (.future, #"{"signedDate":\#((now + 301) * 1000)}"#),
            (nil, #"{"signedDate":\#((now - 7 * day) * 1000)}"#), (.untrusted, #"{"signedDate":\#((now - 9 * day) * 1000)}"#),
            (.untrusted, #"{"signedDate":\#((now + 9 * day) * 1000)}"#), (nil, "{}"), (nil, #"{"signedDate":null}"#),
            (.untrusted, #"{"receiptCreationDate":1000}"#), (.malformed, #"{"signedDate":-1}"#), (.malformed, #"{"signedDate":1e40}"#),
            (.malformed, #"{"signedDate":253402300800000}"#), (.malformed, #"{"signedDate":"x"}"#), (.malformed, "[]"),
            (.malformed, #"{"a":1,"a":1}"#), (.claims, #"{"exp":\#(now)}"#), (nil, #"{"exp":\#(now + 1)}"#),
            (.claims, #"{"nbf":\#(now + 1)}"#),
            (.claims, #"{"iat":\#(now + 1)}"#), (nil, #"{"iat":\#(now),"sub":"a","jti":"b","iss":"c"}"#), (.claims, #"{"sub":1}"#),
            (.claims, #"{"aud":"a"}"#), (nil, #"{"a":"\ud800"}"#),
        ]
        for (expected, payload) in cases { #expect(try Chain().with { $0.payload = payload }.fault() == expected, "\(payload)") }
    }

    @Test func onlyItsOwnSignatureHolds() throws {
        let part = { (token: String, index: Int) in String(token.split(separator: ".")[index]) }
        let cases: [(StoreSignatureFault?, (String) -> String)] = [
            (.signature, { part($0, 0) + "." + #"{"signedDate":1699999999000}"#.base64URL + "." + part($0, 2) }),
            (.signature, { part($0, 0) + "." + part($0, 1) + "." + String(repeating: "A", count: 86) }),
            (.signature, { part($0, 0) + "." + part($0, 1) + "." }), (nil, { $0 + "==" }), (.malformed, { $0 + "=" }),
            (.malformed, { $0 + "A==" }), (.malformed, { $0 + "." }), (.malformed, { _ in "" }), (.malformed, { _ in ".." }),
            (.malformed, { $0 + String(repeating: "A", count: 262_144) }),
        ]
        for (index, (expected, edit)) in cases.enumerated() {
            #expect(try Chain().with { $0.edit = edit }.fault() == expected, "edit \(index)")
        }
    }

    /// Its certificates, of which the leaf was valid until September 2023; only Apple can sign with its key.
    @Test func applesOwnChainIsTrusted() throws {
        let file = Bundle.module.resourceURL!.appending(path: "Vectors/apple-chain.pem")
        let chain = try PEMBlock.all(in: [UInt8](Data(contentsOf: file)).rawBytes).map(\.der)
        let x5c = chain.map { "\"\(Base64.encode($0.rawBytes, isPadded: true))\"" }.joined(separator: ",")
        let token = { (signedAt: Int64) in
            Forge.token(header: #"{"alg":"ES256","x5c":[\#(x5c)]}"#, payload: #"{"signedDate":\#(signedAt)}"#, key: Keys.es256)
        }
        #expect(judge(token(1_681_312_846_000), StoreSignatures()) == .signature)
        #expect(judge(token(1_699_999_999_000), StoreSignatures()) == .untrusted)
    }

    @Test func rootsAreReadFromPEM() throws {
        let authority = try StoreTestAuthority.make(now: WallTime(seconds: now))
        let token = try authority.signer(now: WallTime(seconds: now)).sign(#"{"signedDate":\#(now * 1000)}"#.bytes.rawBytes)
        let (pem, key) = (authority.pem.bytes, try authority.key.pem())
        #expect(judge(token, try StoreSignatures(roots: pem.rawBytes)) == nil)
        #expect(
            judge(
                token,
                try StoreSignatures(roots: (try StoreTestAuthority.make(now: WallTime(seconds: now)).pem + authority.pem).bytes.rawBytes))
                == nil)
        let again = try StoreTestAuthority.read(pem.rawBytes, key: key.rawBytes)
        #expect(again.certificate == authority.certificate && again.key.kid == authority.key.kid)
        for wrong in ["", "text", String(decoding: key, as: UTF8.self), authority.pem + String(decoding: key, as: UTF8.self)] {
            #expect(throws: KeyFault.self) { try StoreSignatures(roots: wrong.bytes.rawBytes) }
        }
    }

    @Test func damagedTokensAreNeverTrusted() throws {
        var mutator = Mutator(seed: 7)
        let (token, signatures) = try Chain().made()
        let words = [".", "=", "\"", "{", "}", "[", "]", ",", "null", "\\u0000", "x5c", "AAAA"].map { Array($0.utf8) }
        let header = token.split(separator: ".")[0].bytes
        var json = ByteBuffer()
        #expect(Base64URL.decode(header.rawBytes, into: &json))
        for round in 0..<4_000 {
            var bytes = mutator.mutate(token.bytes, words)
            if round % 2 == 0 {
                let head = Base64URL.encode(mutator.mutate(json.readable.array, words).rawBytes)
                bytes = (head + "." + token.split(separator: ".").dropFirst().joined(separator: ".")).bytes
            }
            let fault = judge(String(decoding: bytes, as: UTF8.self), signatures)
            #expect(fault != nil || bytes == token.bytes || bytes == (token + "==").bytes)
        }
    }
}
