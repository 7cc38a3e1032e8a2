import Foundation
import Testing
import Wire

@testable import Credentials

/// Interoperability with the `openssl` command: each side verifies the other's signatures, with its key files.
@Suite struct InteropTests {
    private struct CommandFailed: Error { let message: String }

    /// A folder of its own, removed with it.
    private final class Folder {
        let url = FileManager.default.temporaryDirectory.appending(path: "credentials-" + Foundation.UUID().uuidString)

        init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }

        deinit { try? FileManager.default.removeItem(at: url) }

        func path(_ name: String) -> String { url.appending(path: name).path }

        func write(_ name: String, _ bytes: [UInt8]) throws -> String {
            try Data(bytes).write(to: url.appending(path: name))
            return path(name)
        }

        func read(_ name: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: url.appending(path: name))) }

        @discardableResult func openssl(_ arguments: String...) throws -> [UInt8] { try run(arguments) }

        @discardableResult func run(_ arguments: [String]) throws -> [UInt8] {
            let process = Process()
            let (out, errors) = (Pipe(), Pipe())
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = ["openssl"] + arguments
            process.currentDirectoryURL = url
            process.standardOutput = out
            process.standardError = errors
            try process.run()
            let output = out.fileHandleForReading.readDataToEndOfFile()
            let message = errors.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            guard process.terminationStatus == 0 else {
                throw CommandFailed(message: "\(arguments): " + String(decoding: message, as: UTF8.self))
            }
            return [UInt8](output)
        }
    }

    /// The command's arguments to generate a key for `algorithm`.
    private func makeKey(_ algorithm: SigningAlgorithm, _ folder: Folder) throws {
        switch algorithm.family {
        case .hmac: return
        case .rsaPKCS1, .rsaPSS:
            try folder.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "key.pem")
        case .ecdsa:
            let curve = try #require(EllipticCurve.allCases.first { $0.algorithm == algorithm })
            try folder.openssl("ecparam", "-name", curve.nativeName, "-genkey", "-out", "key.pem")
        case .ed25519: try folder.openssl("genpkey", "-algorithm", "ED25519", "-out", "key.pem")
        }
        try folder.openssl("pkey", "-in", "key.pem", "-pubout", "-out", "public.pem")
    }

    private func pss(_ algorithm: SigningAlgorithm) -> [String] {
        algorithm.family == .rsaPSS ? ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest"] : []
    }

    private func hashOption(_ algorithm: SigningAlgorithm) -> String { "-" + algorithm.hash.nativeName.lowercased() }

    /// The raw form of an ECDSA signature in DER, for curves up to P-521.
    private func raw(_ der: [UInt8], _ width: Int) -> [UInt8] {
        var at = der[1] & 0x80 == 0 ? 2 : 3
        var out: [UInt8] = []
        for _ in 0..<2 {
            let length = Int(der[at + 1])
            let digits = der[at + 2..<at + 2 + length].drop { $0 == 0 }
            out += [UInt8](repeating: 0, count: width - digits.count) + digits
            at += 2 + length
        }
        return out
    }

    @Test(arguments: SigningAlgorithm.allCases.filter { !$0.isSymmetric })
    func weVerifyTheSignaturesOfOpenssl(_ algorithm: SigningAlgorithm) throws {
        let folder = try Folder()
        try makeKey(algorithm, folder)
        let input = #"{"alg":"\#(algorithm.name)"}"#.base64URL + "." + Forge.claims.base64URL
        _ = try folder.write("input", input.bytes)
        var signature: [UInt8]
        if algorithm == .EdDSA {
            try folder.openssl("pkeyutl", "-sign", "-rawin", "-inkey", "key.pem", "-in", "input", "-out", "signature")
            signature = try folder.read("signature")
        } else {
            let options = pss(algorithm)
            let command = ["dgst", hashOption(algorithm)] + options + ["-sign", "key.pem", "-out", "signature", "input"]
            try folder.run(command)
            signature = try folder.read("signature")
        }
        if let curve = EllipticCurve.allCases.first(where: { $0.algorithm == algorithm }) {
            signature = raw(signature, curve.fieldBytes)
        }
        let set = try pemKeySet(folder.read("public.pem"))
        let issuer = TrustedIssuer(
            name: "x", issuer: "https://issuer.test", audiences: [], algorithms: AlgorithmSet(algorithm), keys: set)
        #expect(fault(input + "." + Base64URL.encode(signature.rawBytes), Trust(issuers: [issuer])) == nil)
        // The private file serves as well, and is the same key.
        #expect(try pemKeySet(folder.read("key.pem")).keys[0].serial == set.keys[0].serial)
        // And as a key of our own.
        let own = try signingKey(folder.read("key.pem"), algorithm)
        #expect(fault(Forge.token(header: #"{"alg":"\#(algorithm.name)"}"#, key: own), Trust(issuers: [issuer])) == nil)
    }

    @Test(arguments: SigningAlgorithm.allCases.filter { !$0.isSymmetric })
    func opensslVerifiesOurSignatures(_ algorithm: SigningAlgorithm) throws {
        let folder = try Folder()
        let key = try SigningKey.generate(algorithm)
        _ = try folder.write("key.pem", key.pem())
        try folder.openssl("pkey", "-in", "key.pem", "-pubout", "-out", "public.pem")
        _ = try folder.write("input", "some.text".bytes)
        var signature = ByteBuffer()
        let bytes = Forge.signatureBytes(of: "some.text", key, algorithm)
        if algorithm.family == .ecdsa { DER.appendSignature(halves: bytes.rawBytes, to: &signature) } else { signature.append(bytes) }
        _ = try folder.write("signature", signature.readable.array)
        if algorithm == .EdDSA {
            try folder.openssl(
                "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "public.pem", "-in", "input", "-sigfile", "signature")
        } else {
            try folder.run(
                ["dgst", hashOption(algorithm)] + pss(algorithm)
                    + ["-verify", "public.pem", "-signature", "signature", "input"])
        }
    }

    @Test(arguments: SigningAlgorithm.allCases.filter(\.isSymmetric))
    func itsHMACIsOurs(_ algorithm: SigningAlgorithm) throws {
        let folder = try Folder()
        let secret = SecureRandom.bytes(80)
        let hex = secret.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        let input = #"{"alg":"\#(algorithm.name)"}"#.base64URL + "." + Forge.claims.base64URL
        _ = try folder.write("input", input.bytes)
        let code = try folder.openssl(
            "dgst", hashOption(algorithm), "-mac", "HMAC", "-macopt", "hexkey:" + hex, "-binary", "input")
        let key = try SigningKey(secret: secret.rawBytes, algorithm: algorithm)
        #expect(fault(input + "." + Base64URL.encode(code.rawBytes), trust([key])) == nil)
        #expect(Forge.signatureBytes(of: input, key, algorithm) == code)
    }

    @Test func certificatesAndOldKeyFormsAreRead() throws {
        let folder = try Folder()
        try makeKey(.RS256, folder)
        try folder.openssl("req", "-x509", "-key", "key.pem", "-subj", "/CN=x", "-days", "1", "-out", "certificate.pem")
        try folder.openssl("rsa", "-in", "key.pem", "-RSAPublicKey_out", "-out", "pkcs1.pem")
        try folder.openssl("rsa", "-in", "key.pem", "-traditional", "-out", "traditional.pem")
        let serial = try pemKeySet(folder.read("public.pem")).keys[0].serial
        for name in ["certificate.pem", "pkcs1.pem", "traditional.pem", "key.pem"] {
            #expect(try pemKeySet(folder.read(name)).keys[0].serial == serial, "\(name)")
        }
        let both = try pemKeySet(folder.read("public.pem") + Keys.es256.pem())
        #expect(both.keys.map(\.algorithms) == [.rsa, AlgorithmSet(.ES256)])
        #expect(throws: KeyFault("PEM block 2 fits none of the algorithms that are allowed")) {
            try pemKeySet(folder.read("public.pem") + Keys.es256.pem(), .rsa)
        }
        let file = try folder.read("public.pem")
        #expect(try KeySet(file: file.rawBytes).keys[0].serial == serial)
    }

    @Test func encryptedKeysAndOtherKindsAreRefusedByName() throws {
        let folder = try Folder()
        try makeKey(.ES256, folder)
        try folder.openssl("pkcs8", "-topk8", "-in", "key.pem", "-passout", "pass:x", "-out", "encrypted.pem")
        try folder.openssl("ec", "-in", "key.pem", "-aes128", "-passout", "pass:x", "-out", "old.pem")
        try folder.openssl("genpkey", "-algorithm", "X25519", "-out", "x25519.pem")
        try folder.openssl("ecparam", "-name", "secp256k1", "-genkey", "-noout", "-out", "k1.pem")
        try folder.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", "weak.pem")
        try folder.openssl("req", "-new", "-key", "key.pem", "-subj", "/CN=x", "-out", "request.pem")
        for (name, message) in [
            ("encrypted.pem", "PEM block 1 is encrypted"), ("old.pem", "PEM block 1 is encrypted"),
            ("x25519.pem", "PEM block 1 is of a kind that is not supported; RSA, P-256, P-384, P-521 and Ed25519 are"),
            ("k1.pem", "PEM block 1 is on a curve that is not supported; P-256, P-384 and P-521 are"),
            ("weak.pem", "PEM block 1 has 1024 bits, but RSA needs at least 2048"),
            ("request.pem", "PEM block 1 (CERTIFICATE REQUEST) is no key"),
        ] {
            #expect(throws: KeyFault(message), "\(name)") { try pemKeySet(folder.read(name)) }
        }
        #expect(throws: KeyFault("there is no PEM block")) { try pemKeySet("hello".bytes) }
        let public_ = try folder.read("public.pem")
        #expect(throws: KeyFault("the signing key (PUBLIC KEY) is no private key")) { try signingKey(public_, .ES256) }
    }
}
