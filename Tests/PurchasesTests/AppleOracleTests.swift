import Accounts
import Credentials
import Foundation
import Testing
import Wire
import Workbench

@testable import Purchases

private typealias World = AppleWorld

/// Apple's own library, as `deploy/test` installs it, as an oracle: what it accepts is accepted here, and no more. There are two exceptions:
/// here the third certificate must be the pinned root, and a signature from the future is refused.
@Suite(.enabled(if: AppleOracle.isInstalled)) struct AppleOracleTests {
    /// One damaged token, which is a transaction or a notification.
    private struct Case {
        let what: String
        let token: String
        var isNotification = false
    }

    private static let day: Int64 = 86_400
    private static let now = SystemNow.wall
    private static let rootKey = try! SigningKey.generate(.ES384)
    private static let middleKey = try! SigningKey.generate(.ES384)
    private static let leafKey = try! SigningKey.generate(.ES256)
    private static let root = try! draft("Root", true).certificate(of: rootKey, by: nil)

    private static func draft(
        _ name: String, _ isAuthority: Bool, _ markers: [String] = [], from: Int64 = -20, to: Int64 = 20
    ) -> CertificateDraft {
        CertificateDraft(
            name: name, notBefore: WallTime(seconds: now.seconds + from * day), notAfter: WallTime(seconds: now.seconds + to * day),
            isAuthority: isAuthority, markers: markers)
    }

    /// Leaf and intermediate, each with its marker, unless changed.
    private static func chain(
        _ change: (_ leaf: inout CertificateDraft, _ middle: inout CertificateDraft) -> Void = { _, _ in }, signer: SigningKey? = nil
    ) throws -> [[UInt8]] {
        var leaf = draft("Leaf", false, [StoreSignatures.leafMarker], from: -10, to: 10)
        var middle = draft("Intermediate", true, [StoreSignatures.intermediateMarker], from: -15, to: 15)
        change(&leaf, &middle)
        let second = try middle.certificate(of: middleKey, by: (root, rootKey))
        return [try leaf.certificate(of: leafKey, by: (second, signer ?? middleKey)), second, root]
    }

    private static func sign(_ payload: String, _ chain: [[UInt8]]) throws -> String {
        let bytes = Array(payload.utf8)
        return try StoreTestSigner(key: leafKey, chain: chain).sign(bytes.rawBytes)
    }

    private static func transaction(_ changes: [String: String?] = [:]) -> String {
        World.json(World.transactionMembers.merging(["signedDate": "\(now.seconds * 1_000)"]) { $1 }, changes)
    }

    private static func cases() throws -> [Case] {
        var random = SplitMix64(seed: 34)
        func below(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
        let whole = try chain()
        var cases = [Case(what: "whole", token: try sign(transaction(), whole))]
        let bytes = Array(cases[0].token.utf8)
        // A letter of the token.
        for _ in 0..<600 {
            var damaged = bytes
            let at = below(bytes.count)
            switch below(3) {
            case 0: damaged[at] = Array("AZaz09-_=.+/ ".utf8)[below(13)]
            case 1: damaged.remove(at: at)
            case _: damaged.insert(Array("Az0-=.".utf8)[below(6)], at: at)
            }
            cases.append(Case(what: "letter \(at)", token: String(decoding: damaged, as: UTF8.self)))
        }
        // A byte of a certificate.
        for _ in 0..<700 {
            var damaged = whole
            let which = below(3)
            let at = below(damaged[which].count)
            damaged[which][at] = below(2) == 0 ? UInt8(below(256)) : damaged[which][at] ^ (1 << UInt8(below(8)))
            cases.append(Case(what: "byte \(at) of certificate \(which)", token: try sign(transaction(), damaged)))
        }
        // Validity, marks and issuers, and the time of the signature beside them.
        for _ in 0..<700 {
            let (from, to, turn, days) = (Int64(below(30)) - 20, Int64(below(30)) - 8, below(8), Int64(below(44)) - 22)
            let made = try chain(
                { leaf, middle in
                    switch turn {
                    case 0: leaf = draft("Leaf", false, leaf.markers, from: from, to: max(to, from))
                    case 1: middle = draft("Intermediate", true, middle.markers, from: from, to: max(to, from))
                    case 2: leaf.markers = [[], [StoreSignatures.intermediateMarker], leaf.markers + ["1.2.3.4"]][Int(to + 8) % 3]
                    case 3: middle.markers = [[], [StoreSignatures.leafMarker], middle.markers + ["1.2.3.4"]][Int(to + 8) % 3]
                    case 4: middle.isAuthority = false
                    case 5: leaf.isAuthority = true
                    case _: break
                    }
                }, signer: turn == 6 ? rootKey : nil)
            let signedAt = (now.seconds + days * day) * 1_000
            cases.append(
                Case(
                    what: "turn \(turn), \(from) to \(to), signed \(days)",
                    token: try sign(transaction(["signedDate": "\(signedAt)"]), made)))
        }
        // The members of header and payload.
        let header = { (more: String, list: [[UInt8]]) in
            #"{\#(more),"x5c":[\#(list.map { "\"\(Base64.encode($0.rawBytes, isPadded: true))\"" }.joined(separator: ","))]}"#
        }
        let headers = [
            #""alg":"ES256""#, #""alg":"ES384""#, #""alg":"none""#, #""alg":"HS256""#, #""alg":1"#, #""typ":"JWT""#,
            #""alg":"ES256","kid":"a""#,
            #""alg":"ES256","kid":1"#, #""alg":"ES256","crit":["a"]"#, #""alg":"ES256","crit":[]"#, #""alg":"ES256","b64":false"#,
            #""alg":"ES256","jwk":{},"jku":"https://forger.test""#,
        ]
        let lists = [
            whole, Array(whole.prefix(2)), whole + [root], [whole[1], whole[0], root], [whole[0], root, root], [whole[0], whole[0], root],
            [root, root, root], [],
        ]
        for more in headers {
            for list in lists {
                let (body, head) = (Array(transaction().utf8), Array(header(more, list).utf8))
                let token = try leafKey.sign(body.rawBytes, header: head.rawBytes)
                cases.append(Case(what: more, token: String(decoding: token, as: UTF8.self)))
            }
        }
        let later = "\(now.seconds + 1_000)"
        let earlier = "\(now.seconds - 1_000)"
        let members: [[String: String?]] =
            ["iat", "nbf", "exp"].flatMap { name in [later, earlier, "\"x\"", "[]"].map { [name: $0] } } + [
                ["aud": "\"a\""], ["aud": "[\"a\"]"], ["sub": "1"], ["sub": "\"a\""], ["jti": "1"], ["jti": "\"a\""], ["iss": "\"a\""],
                ["bundleId": "\"foreign.app\""], ["bundleId": nil], ["environment": "\"Production\""], ["environment": nil],
                ["environment": "\"Xcode\""], ["environment": "\"sandbox\""], ["signedDate": nil], ["signedDate": "0"],
                ["signedDate": "null"],
                ["signedDate": nil, "receiptCreationDate": "1000"], ["signedDate": "\"x\""], ["signedDate": "[]"],
                ["new": "{\"a\":[1,2,3]}"],
            ]
        for changes in members { cases.append(Case(what: "\(changes)", token: try sign(transaction(changes), whole))) }
        return try cases + notifications(whole)
    }

    private static func notifications(_ chain: [[UInt8]]) throws -> [Case] {
        let changes: [[String: String?]] = [
            [:], ["bundleId": "\"foreign.app\""], ["bundleId": nil], ["environment": "\"Production\""], ["environment": nil],
            ["appAppleId": "78"], ["appAppleId": nil], ["status": "9"],
        ]
        let time: [String: String?] = ["signedDate": "\(now.seconds * 1_000)"]
        var found: [Case] = []
        for row in AppleNotification.table {
            for subtype in row.subtypes + ["NEW"] {
                for data in changes {
                    let payload = World.notification(row.type, subtype, transaction: nil, renewal: nil, data: data, changes: time)
                    found.append(Case(what: "\(row.type)/\(subtype) \(data)", token: try sign(payload, chain), isNotification: true))
                }
            }
        }
        let app = #"{"bundleId":"test.app","environment":"Sandbox","externalPurchaseId":"SANDBOX_1"}"#
        for (name, value) in ["summary", "externalPurchaseToken", "appData"].flatMap({ name in
            [app, app.replacing("SANDBOX_", with: ""), app.replacing("Sandbox", with: "Production"), "{}"].map { (name, $0) }
        }) {
            let payload = World.notification("RENEWAL_EXTENSION", changes: time.merging(["data": nil, name: value]) { $1 })
            found.append(Case(what: "\(name) \(value)", token: try sign(payload, chain), isNotification: true))
        }
        return found
    }

    @Test func whatTheLibraryAcceptsIsAcceptedAndNoMore() async throws {
        let cases = try Self.cases()
        let root = Self.root
        let verdicts = try AppleOracle.verdicts(cases.map { ($0.token, $0.isNotification) }, root: root)
        #expect(cases.count > 2_500 && verdicts.count == cases.count)
        let plan = ApplePlan(
            bundleIDs: ["test.app"], environments: [.sandbox], signatures: StoreSignatures(roots: [Digest.sha256(root.rawBytes)]))
        let store = World.storefront(plan)
        var accepted = 0
        var stricter = 0
        for (item, isAccepted) in zip(cases, verdicts) {
            let fault = await fault { () async throws(StorefrontFault) in
                if item.isNotification {
                    _ = try await store.notification(Array("{\"signedPayload\":\"\(item.token)\"}".utf8), now: Self.now) { _ in nil }
                } else {
                    _ = try await store.prove(.apple(transaction: item.token), now: Self.now)
                }
            }
            if isAccepted { accepted += 1 }
            if isAccepted && ["not authentic: root", "not authentic: future"].contains(fault) { stricter += 1; continue }
            #expect(fault.isEmpty == isAccepted, "\(item.what): \(fault)")
        }
        // That the comparison meant something.
        #expect(accepted > 500 && accepted < 2_000 && stricter > 100)
    }
}

private enum SystemNow {
    /// The library reads the clock; it is whole seconds here.
    static let wall = WallTime(seconds: Int64(Date().timeIntervalSince1970))
}

/// Apple's library for Python.
private enum AppleOracle {
    private static let home = packagePath(".build/python")

    static let isInstalled: Bool = {
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: home + "/lib")) ?? []
        return versions.contains { FileManager.default.fileExists(atPath: "\(home)/lib/\($0)/site-packages/appstoreserverlibrary") }
    }()

    private static let script = """
        import base64, sys
        from appstoreserverlibrary.models.Environment import Environment
        from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier
        root, path = sys.argv[1:]
        verifier = SignedDataVerifier([base64.b64decode(root)], False, Environment.SANDBOX, "test.app")
        for line in open(path):
            kind, token = line.rstrip("\\n").split("|", 1)
            try:
                (verifier.verify_and_decode_notification if kind == "n" else verifier.verify_and_decode_signed_transaction)(token)
                print("yes")
            except Exception:
                print("no")
        """

    /// Whether the library accepts each token.
    static func verdicts(_ tokens: [(String, isNotification: Bool)], root: [UInt8]) throws -> [Bool] {
        let file = FileManager.default.temporaryDirectory.appending(
            path: "apple-oracle-\(UUID(high: 0, low: UInt64.random(in: 0...UInt64.max)).text)")
        defer { try? FileManager.default.removeItem(at: file) }
        let lines = tokens.map { "\($0.isNotification ? "n" : "t")|\($0.0)\n" }.joined()
        try Data(lines.utf8).write(to: file)
        let process = Process()
        process.executableURL = URL(filePath: home + "/bin/python")
        process.arguments = ["-c", script, Base64.encode(root.rawBytes, isPadded: true), file.path]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: output, as: UTF8.self).split(separator: "\n").map { $0 == "yes" }
    }
}
