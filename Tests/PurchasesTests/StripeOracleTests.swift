import Accounts
import Foundation
import Testing
import Wire
import Workbench

@testable import Purchases

/// Stripe's own library (PyPI `stripe`) as the judge of signatures. Left out without it.
@Suite struct StripeOracleTests {
    private static let home = packagePath(".build/python")
    private static let python = home + "/bin/python"
    static let isInstalled = ((try? FileManager.default.contentsOfDirectory(atPath: home + "/lib")) ?? []).contains {
        FileManager.default.fileExists(atPath: "\(home)/lib/\($0)/site-packages/stripe/_webhook.py")
    }

    private static let script = """
        import base64, sys, time
        import stripe
        time.time = lambda: 1000.0
        for line in sys.stdin:
            header, body = (base64.b64decode(part) for part in line.split(" "))
            try:
                event = stripe.Webhook.construct_event(body, header.decode("latin-1"), "whsec_new", 300)
                print(event.id, event.type, event.created, event.livemode, event.data.object.id)
            except Exception as fault:
                print("refused", fault.__class__.__name__)
        """

    /// What the library says of each header and body, a line for each.
    private static func judge(_ cases: [(header: [UInt8], body: [UInt8])]) throws -> [String] {
        let folder = try TemporaryFolder()
        let input = cases.map { header, body in
            Base64.encode(header.rawBytes, isPadded: true) + " " + Base64.encode(body.rawBytes, isPadded: true) + "\n"
        }.joined()
        try Data(input.utf8).write(to: URL(filePath: folder.path + "/cases"))
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: python)
        process.arguments = ["-c", script]
        process.standardInput = try FileHandle(forReadingFrom: URL(filePath: folder.path + "/cases"))
        process.standardOutput = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private static func isAccepted(_ header: [UInt8], _ body: [UInt8]) -> Bool {
        do throws(StorefrontFault) {
            try StripeSignature.verify(header.rawBytes.text, body, secrets: [Array("whsec_new".utf8)], now: WallTime(seconds: 1_000))
            return true
        } catch {
            return false
        }
    }

    @Test(.enabled(if: isInstalled)) func theLibraryAcceptsTheSameSignatures() throws {
        var damage = Damage(seed: 11)
        let body = StripeSamples.sample("charge.refunded")
        let words = [
            "t=", "v1=", "v0=", ",", "=", "1000", "t=1000,", "t=1299,", "-", "0", "+",
            StripeSamples.signed(body, at: 1_000, secret: "whsec_new"), ",t", ",v1",
        ]
        var cases: [(header: [UInt8], body: [UInt8])] = []
        for round in 0..<6_000 {
            let header = Array(StripeSamples.signed(body, at: Int64(600 + damage.below(800)), secret: "whsec_new").utf8)
            switch round % 4 {
            case 0: cases.append((header, body))
            case 1: cases.append((header, damage.damaged(body, words)))
            case _: cases.append((damage.damaged(header, words), body))
            }
        }
        let verdicts = try Self.judge(cases)
        try #require(verdicts.count == cases.count)
        var accepted = 0
        for (verdict, (header, body)) in zip(verdicts, cases) {
            let theirs = !verdict.hasPrefix("refused")
            let ours = Self.isAccepted(header, body)
            accepted += ours ? 1 : 0
            // We alone refuse what is signed in the future.
            let isOfTheFuture =
                theirs && !ours && header.rawBytes.text.split(separator: ",").contains { (Int($0.dropFirst(2)) ?? 0) > 1_300 }
            if ours != theirs && !isOfTheFuture { Issue.record("\(verdict) \(ours): \(header.rawBytes.text) \(body.rawBytes.text)") }
        }
        #expect(accepted > 1_000 && accepted < 4_000)
    }

    @Test(.enabled(if: isInstalled)) func theLibraryReadsTheSameEvents() throws {
        let bodies = StripeEventType.allCases.map { StripeSamples.sample($0.rawValue) }
        let verdicts = try Self.judge(bodies.map { (Array(StripeSamples.signed($0, at: 1_000, secret: "whsec_new").utf8), $0) })
        let ours = try bodies.map { body in
            let event = try StripeEvent(body)
            let object = JSONTree(body.rawBytes)?["data"]["object"]["id"].id ?? ""
            return "\(event.id) \(event.type) \(event.at.seconds) \(event.environment == .production ? "True" : "False") \(object)"
        }
        #expect(verdicts == ours)
    }
}
