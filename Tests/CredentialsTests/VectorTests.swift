import Foundation
import Testing
import Wire

@testable import Credentials

/// One file of `Vectors`.
struct Vector: CustomTestStringConvertible {
    let testDescription: String
    let algorithm: SigningAlgorithm
    let jwk: String
    let token: String

    static let all: [Vector] = {
        let folder = Bundle.module.resourceURL!.appending(path: "Vectors")
        let files = try! FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return files.filter { $0.pathExtension == "txt" }.sorted { $0.path < $1.path }.map(Vector.init)
    }()

    init(_ file: URL) {
        var fields: [String: String] = [:]
        for line in try! String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
            guard let colon = line.firstIndex(of: ":"), !line.hasPrefix("#") else { continue }
            fields[String(line[..<colon])] = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        }
        testDescription = file.deletingPathExtension().lastPathComponent
        algorithm = SigningAlgorithm(name: fields["alg"]!)!
        jwk = fields["jwk"]!
        token = fields["token"]!
    }

    func key() throws -> VerificationKey { try keySet(#"{"keys":[\#(jwk)]}"#).keys[0] }

    var input: String { String(token[..<token.lastIndex(of: ".")!]) }

    var signature: [UInt8] {
        Base64URL.decode(String(token[token.index(after: token.lastIndex(of: ".")!)...]).bytes.rawBytes)!
    }
}

func holds(
    _ signature: [UInt8], over input: String, _ algorithm: SigningAlgorithm, by key: VerificationKey
) -> Bool {
    var contexts = SignatureContexts()
    var buffer = ByteBuffer()
    buffer.append(signature)
    return contexts.prove(buffer, over: input.bytes.rawBytes, algorithm, by: key) != nil
}

@Suite struct VectorTests {
    @Test func thereAreNineVectors() { #expect(Vector.all.count == 9) }

    @Test(arguments: Vector.all) func theSignatureHolds(_ vector: Vector) throws {
        #expect(holds(vector.signature, over: vector.input, vector.algorithm, by: try vector.key()))
    }

    @Test(arguments: Vector.all) func noOtherAlgorithmAcceptsIt(_ vector: Vector) throws {
        let key = try vector.key()
        for algorithm in SigningAlgorithm.allCases where algorithm != vector.algorithm {
            #expect(!holds(vector.signature, over: vector.input, algorithm, by: key))
        }
    }

    @Test(arguments: Vector.all) func aFlippedBitOrAnotherLengthFails(_ vector: Vector) throws {
        let key = try vector.key()
        var contexts = SignatureContexts()
        var buffer = ByteBuffer()
        let input = vector.input.bytes
        for index in vector.signature.indices where index % 7 == 0 || index < 4 {
            var spoiled = vector.signature
            spoiled[index] ^= 0x10
            buffer.removeAll()
            buffer.append(spoiled)
            #expect(contexts.prove(buffer, over: input.rawBytes, vector.algorithm, by: key) == nil)
        }
        let signature = vector.signature
        for other in [[], Array(signature.dropLast()), signature + [0], [0] + signature, signature + signature] {
            buffer.removeAll()
            buffer.append(other)
            #expect(contexts.prove(buffer, over: input.rawBytes, vector.algorithm, by: key) == nil)
        }
        // And after all these failures the same contexts still accept the real one.
        buffer.removeAll()
        buffer.append(signature)
        #expect(contexts.prove(buffer, over: input.rawBytes, vector.algorithm, by: key) != nil)
    }

    @Test(arguments: Vector.all.filter { $0.testDescription.hasPrefix("rfc7515-a") && $0.algorithm != .ES512 })
    func theClaimsOfRFC7515AreRead(_ vector: Vector) throws {
        let joe = TrustedIssuer(
            name: "joe", issuer: "joe", audiences: [], algorithms: AlgorithmSet(vector.algorithm),
            keys: KeySet([try vector.key()]), userClaim: "iss")
        let requirements = [
            ClaimRequirement(name: "http://example.com/is_root", value: "true"),
            ClaimRequirement(name: "http://example.com/is_root", value: "false"),
        ]
        let trust = Trust(issuers: [joe], requirements: requirements)
        let token = try verify(vector.token, trust, at: 1_300_819_380).get()
        #expect(token.userID.text == "joe")
        #expect(token.expiresAt == 1_300_819_380)
        #expect(token.requirementMask == 0b01)
        #expect(token.algorithm == vector.algorithm)
        #expect(fault(vector.token, trust, at: 1_300_819_380 + 29) == nil)
        #expect(fault(vector.token, trust, at: 1_300_819_380 + 30) == .expired)
    }

    /// RFC 7638 §3.1 and RFC 8037 appendix A.3.
    @Test(arguments: [
        (
            #"{"kty":"RSA","e":"AQAB","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"}"#,
            "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
        ),
        (
            #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
            "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
        ),
    ])
    func theThumbprintIsTheDocuments(_ jwk: String, _ thumbprint: String) throws {
        let key = try keySet(#"{"keys":[\#(jwk)]}"#).keys[0]
        #expect(RequiredMembers(key.material)?.thumbprint == thumbprint)
    }
}
