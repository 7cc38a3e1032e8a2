import Foundation
import Testing
import Wire

@testable import Credentials

/// Authenticators of PyPI (`soft-webauthn`, `fido2`) and their damaged answers, with the verdicts of PyPI's `webauthn`. Left out without
/// them.
@Suite struct PasskeyOracleTests {
    private static let home = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../.build/python").standardized.path
    static let isInstalled = ((try? FileManager.default.contentsOfDirectory(atPath: home + "/lib")) ?? []).contains { version in
        ["webauthn", "fido2", "soft_webauthn.py"].allSatisfy {
            FileManager.default.fileExists(atPath: "\(home)/lib/\(version)/site-packages/\($0)")
        }
    }

    /// Prints a case on each line: kind, key, algorithm, credential, verdict. `attestation` is a refusal for the statement's format alone.
    private static let script = """
        import base64, json, random
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
        from fido2 import cbor
        from fido2.cose import ES256, EdDSA, RS256
        from fido2.utils import sha256
        from fido2.webauthn import AttestedCredentialData, AuthenticatorData
        from soft_webauthn import SoftWebauthnDevice
        import webauthn
        from webauthn.helpers.structs import COSEAlgorithmIdentifier as Algorithm
        rng = random.Random(38)
        b64 = lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")
        challenge, origin = b"a challenge of 24 bytes!", "https://example.org"

        def sign(key, data):
            if isinstance(key, ec.EllipticCurvePrivateKey): return key.sign(data, ec.ECDSA(hashes.SHA256()))
            if isinstance(key, rsa.RSAPrivateKey): return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
            return key.sign(data)

        words = [b"\\xa0", b"\\xff", b"\\x00", b"{}", b'"', b"\\xbf", b"\\x58\\x20", b"true", b","]

        def damaged(data):
            data = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                at, kind = rng.randrange(len(data) + 1), rng.randrange(6)
                if kind == 0 and at < len(data): data[at] ^= 1 << rng.randrange(8)
                elif kind == 1 and at < len(data): data[at] = rng.randrange(256)
                elif kind == 2: del data[at:at + rng.randint(1, 8)]
                elif kind == 3: data[at:at] = rng.choice(words)
                elif kind == 4: data[at:at] = data[at:at + rng.randrange(20)]
                elif data: data = data[:at] or data
            return bytes(data)

        def client(kind):
            data = {"type": "webauthn." + kind, "challenge": b64(challenge), "origin": origin, "crossOrigin": False}
            change = rng.randrange(20)
            if change == 0: data["type"] = rng.choice(["webauthn.get", "webauthn.create", "payment.get", "", None, 7])
            if change == 1: data["challenge"] = rng.choice([b64(challenge[1:]), "", b64(challenge) + "=", "!", 7])
            if change == 2: data["origin"] = rng.choice([origin + "/", origin + ":443", "http://example.org", "https://a.org", [origin]])
            if change == 3: data.pop(rng.choice(list(data)))
            if change == 4: data[rng.choice(["topOrigin", "tokenBinding", "x"])] = rng.choice(["https://b", {"status": "present"}, None])
            return json.dumps(data).encode()

        def head(attested=None):
            flags = rng.choice([0x05, 0x0d, 0x1d] * 5 + [0x15, 0x01, 0x04, 0x00, rng.randrange(64)])
            rp = rng.choice(["example.org"] * 19 + ["example.com"])
            extensions = {"credProtect": 2} if rng.randrange(4) == 0 else None
            flags = flags & 0x3f | (0x40 if attested else 0) | (0x80 if extensions else 0)
            return bytes(AuthenticatorData.create(sha256(rp.encode()), flags, rng.choice([0, 1, 2**32 - 1]), attested or b"", extensions))

        def key():
            kind = rng.randrange(8)
            if kind == 0: return RS256, keys[rng.randrange(3)]
            if kind < 3: return EdDSA, ed25519.Ed25519PrivateKey.generate()
            return ES256, ec.generate_private_key(ec.SECP256R1())

        algorithms = [Algorithm.ECDSA_SHA_256, Algorithm.EDDSA, Algorithm.RSASSA_PKCS1_v1_5_SHA_256]
        keys = [rsa.generate_private_key(65537, 2048) for _ in range(3)]
        soft = {"publicKey": {"rp": {"id": "example.org"}, "user": {"id": b"user"}, "challenge": challenge, "rpId": "example.org",
            "pubKeyCredParams": [{"alg": -7, "type": "public-key"}]}}
        names = {ES256: "ES256", EdDSA: "EdDSA", RS256: "RS256"}

        def case(number):
            cose, private = key()
            identity, kind = rng.randbytes(rng.choice([16, 32, 200])), "rg"[number % 2]
            public = cose.from_cryptography_key(private.public_key())
            if number % 8 < 2:
                device = SoftWebauthnDevice()
                made = device.create(soft, origin)
                cose, private, identity = ES256, device.private_key, device.credential_id
                public = ES256.from_cryptography_key(private.public_key())
                answer = made["response"] if kind == "r" else device.get(soft, origin)["response"]
                # Its user is never verified.
                if kind == "r":
                    object = cbor.decode(answer["attestationObject"])
                    object["authData"] = object["authData"][:32] + b"\\x45" + object["authData"][33:]
                    answer["attestationObject"] = cbor.encode(object)
                else:
                    answer["authenticatorData"] = answer["authenticatorData"][:32] + b"\\x05" + answer["authenticatorData"][33:]
            elif kind == "r":
                attested = AttestedCredentialData.create(bytes(16), identity, public)
                data = head(attested)
                if rng.randrange(6) == 0: data = damaged(data)
                format, statement = rng.choice(["none"] * 5 + ["packed", "x"]), {} if rng.randrange(8) else {"alg": -7}
                object = {"fmt": format, "attStmt": statement, "authData": data}
                answer = {"clientDataJSON": client("create"), "attestationObject": cbor.encode(object), "transports": ["usb"]}
            else:
                data = head()
                if rng.randrange(6) == 0: data = damaged(data)
                answer = {"clientDataJSON": client("get"), "authenticatorData": data, "userHandle": b"user"}
            if kind == "g":
                answer["signature"] = sign(private, answer["authenticatorData"] + sha256(answer["clientDataJSON"]))
            if rng.randrange(4) == 0:
                part = rng.choice([name for name in answer if name not in ("transports", "userHandle")])
                answer[part] = damaged(answer[part])
            response = {name: value if isinstance(value, list) else b64(value) for name, value in answer.items()}
            whole = {"id": b64(identity), "rawId": b64(identity), "type": "public-key", "response": response}
            text = json.dumps(whole | {"clientExtensionResults": {}})
            if rng.randrange(10) == 0: text = damaged(text.encode()).decode("utf-8", "replace")
            try:
                asked = dict(
                    credential=text, expected_challenge=challenge, expected_rp_id="example.org", expected_origin=[origin],
                    require_user_verification=True)
                if kind == "r":
                    webauthn.verify_registration_response(**asked, supported_pub_key_algs=algorithms)
                else:
                    webauthn.verify_authentication_response(
                        **asked, credential_public_key=cbor.encode(public), credential_current_sign_count=0)
                verdict = "accepted"
            except Exception as fault:
                verdict = "refused"
                try:
                    object = base64.urlsafe_b64decode(json.loads(text)["response"]["attestationObject"] + "==")
                    if cbor.decode(object)["fmt"] != "none": verdict = "attestation"
                except Exception: pass
            spki = private.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
            print(kind, b64(spki), names[cose], b64(text.encode()), verdict)

        for number in range(6000): case(number)
        """

    private static func cases() throws -> [[String]] {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: home + "/bin/python")
        process.arguments = ["-W", "ignore", "-c", script]
        process.standardOutput = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: text, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
    }

    /// The backup flag of a registration is not known here, so that of the assertion counts.
    private static func accepts(_ kind: String, _ credential: [UInt8], _ key: [UInt8], _ algorithm: SigningAlgorithm) -> Bool {
        let rules = PasskeyRules(rpID: "example.org", origins: ["https://example.org"])
        let challenge = Array("a challenge of 24 bytes!".utf8)
        do throws(PasskeyFault) {
            guard kind == "g" else { return try rules.registration(credential.rawBytes).challenge == challenge }
            let found = try rules.assertion(credential.rawBytes)
            let isEligible = found.data.flags.contains(.backupEligible)
            _ = try found.verified(by: key, algorithm, isBackupEligible: isEligible)
            return found.challenge == challenge
        } catch { return false }
    }

    @Test(.enabled(if: isInstalled)) func nothingPassesThatTheLibraryRefuses() throws {
        var (accepted, refused, stricter) = (0, 0, 0)
        let cases = try Self.cases()
        try #require(cases.count == 6_000)
        for row in cases {
            let bytes = [1, 3].map { index in row[index].withRawBytes { Base64URL.decode($0) } ?? [] }
            let (key, credential) = (bytes[0], bytes[1])
            let ours = Self.accepts(row[0], credential, key, try #require(SigningAlgorithm(name: row[2])))
            switch row[4] {
            case "accepted": if ours { accepted += 1 } else { stricter += 1 }
            case "refused":
                refused += 1
                #expect(!ours, "\(row[0]) \(String(decoding: credential, as: UTF8.self))")
            case _: continue
            }
        }
        // Stricter: backed up without being able to be, a page inside of another one, another id than the credential's own, members
        // twice, and spellings of base64url, JSON and CBOR that the library reads loosely.
        #expect(
            accepted > 600 && refused > 2_000 && stricter < accepted, "\(accepted) accepted, \(refused) refused, \(stricter) here alone")
    }
}
