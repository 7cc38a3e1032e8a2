import Testing
import Wire

@testable import Credentials

/// The reader of CBOR from authenticators, and damaged bytes in all that it reads.
@Suite struct CBORTests {
    /// From the examples of RFC 8949, appendix A.
    @Test func theExamplesOfTheStandard() {
        let rows: [(hex: String, value: CBOR?)] = [
            ("00", .integer(0)), ("17", .integer(23)), ("1818", .integer(24)), ("1903e8", .integer(1_000)),
            ("1a000f4240", .integer(1_000_000)),
            ("1b000000e8d4a51000", .integer(1_000_000_000_000)), ("1bffffffffffffffff", nil), ("3bffffffffffffffff", nil),
            ("1b7fffffffffffffff", .integer(.max)), ("3b7fffffffffffffff", .integer(.min)), ("20", .integer(-1)), ("3863", .integer(-100)),
            ("3903e7", .integer(-1_000)), ("f90000", .other), ("fb3ff199999999999a", .other), ("f4", .other), ("f6", .other),
            ("c11a514b67b0", nil),
            ("d74401020304", nil), ("40", .bytes([])), ("4401020304", .bytes([1, 2, 3, 4])), ("60", .text("")),
            ("6449455446", .text("IETF")),
            ("62c3bc", .text("ü")), ("62c328", nil), ("80", .array([])), ("83010203", .array([.integer(1), .integer(2), .integer(3)])),
            ("a0", .map([:])),
            ("a201020304", .map([.integer(1): .integer(2), .integer(3): .integer(4)])),
            ("a26161016162820203", .map([.text("a"): .integer(1), .text("b"): .array([.integer(2), .integer(3)])])),
            ("5f42010243030405ff", nil), ("7f657374726561646d696e67ff", nil), ("9fff", nil), ("bf61610161629f0203ffff", nil), ("ff", nil),
            ("1c", nil),
            ("", nil), ("18", nil), ("0000", nil), ("4401", nil), ("5bffffffffffffffff00", nil), ("9bffffffffffffffff00", nil),
            ("bbffffffffffffffff00", nil),
            ("a2010201ff", nil), ("a201020103", nil), ("a1400a", nil), ("a1f401", nil), ("a1a00a", nil), ("1801", .integer(1)),
            (String(repeating: "81", count: 7) + "00", (0..<7).reduce(.integer(0)) { value, _ in .array([value]) }),
            (String(repeating: "81", count: 8) + "00", nil),
            (String(repeating: "81", count: 1_000), nil),
        ]
        for row in rows {
            let digits = Array(row.hex)
            let bytes = stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0..<$0 + 2]), radix: 16)! }
            #expect(CBOR(bytes) == row.value, "\(row.hex.prefix(60))")
        }
    }

    /// COSE has two names for the one algorithm of such a key (RFC 9864 §2.2).
    @Test func aKeyOfEd25519HasEitherName() throws {
        var cose = SoftAuthenticator(Keys.eddsa).cose
        for (name, isKnown) in [(0x27, true), (0x32, true), (0x33, false)] as [(UInt8, Bool)] {
            cose[4] = name
            let key = try #require(CBOR(cose))
            var algorithm: SigningAlgorithm?
            do throws(PasskeyFault) { algorithm = try PasskeyKey(cose: key).algorithm } catch {}
            #expect(algorithm == (isKnown ? .EdDSA : nil), "\(name)")
        }
    }

    @Test func damagedCredentialsNeverTrapAndNeverSignIn() throws {
        var mutator = Mutator(seed: 9)
        let rules = PasskeyRules(rpID: "example.org", origins: ["https://example.org"])
        var device = SoftAuthenticator(Keys.eddsa)
        device.extensions = [0xA1] + SoftAuthenticator.text("x") + [0x81, 0xF6]
        let words = ["\"", "{}", "[]", "\\u0000", "AAAA", "null", "=", "\"id\":", "\"response\":{"].map { Array($0.utf8) }
        let (registration, assertion) = (device.registration().bytes, device.assertion().bytes)
        let original = try rules.assertion(assertion.rawBytes)
        var (registered, signedIn) = (0, 0)
        for _ in 0..<10_000 {
            do throws(PasskeyFault) {
                registered += try rules.registration(mutator.mutate(registration, words).rawBytes).credentialID.count
            } catch {}
            do throws(PasskeyFault) {
                let found = try rules.assertion(mutator.mutate(assertion, words).rawBytes)
                _ = try found.verified(by: device.publicKey, .EdDSA, isBackupEligible: true)
                signedIn += 1
                // The signed bytes have not changed: the damage hit the id of both members, the user's handle, or a name that is ignored.
                #expect(found.signed == original.signed && found.challenge == device.challenge)
            } catch {}
        }
        #expect(registered > 0 && signedIn > 0)
    }

    @Test func damagedBinaryFormsNeverTrap() {
        var mutator = Mutator(seed: 10)
        let words: [[UInt8]] = [
            [0xBF], [0xFF], [0x5B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], [0x9A, 0xFF, 0xFF, 0xFF, 0xFF], [0xA1], [0x1B], [0xC1],
            [0x81, 0x81, 0x81],
        ]
        let device = SoftAuthenticator(Keys.rs256)
        let data =
            [UInt8](repeating: 1, count: 32) + [0xC5, 0, 0, 0, 1] + [UInt8](0..<16) + [0, 4, 1, 2, 3, 4] + device.cose + [
                0xA1, 0x61, 0x78, 0xF5,
            ]
        let object =
            [0xA3] + SoftAuthenticator.text("authData") + SoftAuthenticator.bytes(data) + SoftAuthenticator.text("fmt")
            + SoftAuthenticator.text("none") + SoftAuthenticator.text("attStmt") + [0xA0]
        var (readable, keys) = (0, 0)
        for _ in 0..<20_000 {
            if CBOR(mutator.mutate(object, words)) != nil { readable += 1 }
            if let credential = AuthenticatorData(mutator.mutate(data, words))?.credential {
                do throws(PasskeyFault) { keys += try PasskeyKey(cose: credential.key).der?.count ?? 0 } catch {}
            }
        }
        #expect(readable > 0 && keys > 0)
    }
}
