import Foundation
import Stories

/// The world of a gateway that runs, with a clock that cannot be set. It is made when the first request comes: what a
/// story says of the world before becomes a setting.
final class GatewayWorld: StoryWorld {
    private let providers: Providers
    private var providerSettings: String
    /// The usual hundred new accounts at once; their limit refills later than any story lasts.
    private var settings = [
        Gateway.contracts, "TOLLGATE_RESET_URL=https://app.example.org/reset", "TOLLGATE_SIGNUP_LIMIT=1/h+burst=100",
        "TOLLGATE_ACCOUNT=/account",
    ]
    private var running: Gateway?
    /// A port at which nobody answers, for as long as this lives.
    private let nowhere: Listening
    /// How many messages to somebody were handed out or passed over.
    private var read: [String: Int] = [:]
    private var marks = 0
    /// Answers that lack what every answer of a contract has.
    private(set) var faults: [String] = []

    init() throws {
        providers = try Providers.shared.get()
        providerSettings = providers.settings()
        nowhere = try Listening.refusing()
    }

    var now: Int { unixNow }
    /// A story that is told at the pace of a busy machine.
    let clockTolerance = 120

    func ask(_ method: String, _ target: String, _ fields: [String], _ body: [UInt8]) async throws -> StoryAnswer {
        let answer = try gateway().ask("\(method) \(target)", fields, body: body.isEmpty ? nil : body)
        if answer["Cache-Control"] != "no-store" { faults.append("\(method) \(target): \(answer)") }
        return StoryAnswer(status: answer.status, fields: answer.fields, body: answer.body)
    }

    func wait(seconds: Int) async throws { throw NotInThisWorld() }

    /// Messages leave in the order in which they were sent: once one that is sent now has arrived, all others have.
    func message(to recipient: String) async throws -> StoryMessage? {
        marks += 1
        let mark = "mark\(marks)@marks.test"
        guard try gateway().send("POST /auth/email/code", #"{"email":"\#(mark)"}"#).status == 200 else {
            throw Fault("no code for \(mark)")
        }
        _ = try gateway().message(to: mark)
        let messages = try gateway().outbox().filter { $0["to"].text == recipient }
        defer { read[recipient] = messages.count }
        guard messages.count > read[recipient, default: 0], let newest = messages.last else { return nil }
        if let link = newest["link"].text {
            return .reset(String(link.split(separator: "token=", maxSplits: 1).last ?? ""))
        }
        return .code(try must(newest["code"]))
    }

    func idToken(_ provider: String, _ claims: String) async throws -> String { try providers.token(provider, claims) }

    // The old issuer has tests of its own.
    func outsideToken(_ kind: String, _ subject: String) async throws -> String { throw NotInThisWorld() }

    func act(_ words: [String]) async throws {
        switch words[0] {
        case "world", "keys": try set(words)
        case "tier":
            let until = words.count > 3 ? ["--until", Date(timeIntervalSinceNow: Double(words[3]) ?? 0).ISO8601Format()] : []
            try await operate(["user", "set-tier", words[1], words[2]] + until)
        case "grant": try await operate(["actor", "grant"] + words[1...])
        case "ban":
            let until = words.count > 2 ? ["--until", Date(timeIntervalSinceNow: Double(words[2]) ?? 0).ISO8601Format()] : []
            try await operate(["user", "ban", words[1]] + until)
        case "unban": try await operate(["user", "unban", words[1]])
        case "delete": try await operate(["user", "delete", words[1]])
        // A store that goes away has tests of its own.
        case "store", "import": throw NotInThisWorld()
        default: throw StoryFault("\(words) mean nothing")
        }
    }

    private func set(_ words: [String]) throws {
        guard running == nil else { throw StoryFault("\(words) come too late: the gateway runs") }
        switch words[1] {
        case "no-providers": providerSettings = ""
        case "grace": settings.append("TOLLGATE_DELETION=grace=14d")
        case "provider": settings.append(providers.line(words[2]))
        case "require-confirmed-email": settings.append("TOLLGATE_REQUIRE_CONFIRMED_EMAIL=true")
        case "away": providerSettings = providers.settings(keysAt: "http://127.0.0.1:\(nowhere.port)/keys")
        default: throw StoryFault("\(words) mean nothing")
        }
    }

    /// What is done on the command line counts once the gateway has read of it.
    private func operate(_ words: [String]) async throws {
        let (applied, logged) = (try appliedChanges(), try loggedChanges())
        let outcome = try gateway().command(words)
        guard outcome.code == 0 else { throw StoryFault("\(words): \(outcome.complaints)") }
        let new = try loggedChanges() - logged
        try eventually("\(words) counts") { try appliedChanges() - applied >= new }
    }

    private func appliedChanges() throws -> Int { Int(try gateway().metric("tollgate_bus_lag_seconds_count")) }

    /// How many changes the accounts' log holds.
    private func loggedChanges() throws -> Int {
        let script = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM changes').fetchone()[0])"
        let count = try mustRun("python3", ["-c", script, gateway().folder.file("data/accounts.db")])
        return Int(count) ?? 0
    }

    private func gateway() throws -> Gateway {
        if let running { return running }
        let gateway = try Gateway((settings + [providerSettings]).joined(separator: "\n"))
        running = gateway
        return gateway
    }
}
