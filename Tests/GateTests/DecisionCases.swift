import Credentials
import Foundation
import Settings
import Testing
import Wire

@testable import Gate

/// A document in `Cases`: settings, requests, and the decisions about them. `Cases/README.md` says how one is written.
struct DecisionDocument {
    /// A difference from the document, or a mistake in it.
    private(set) var failures: [String] = []
    private(set) var count = 0
    private let name: String
    private var settings = ""
    /// Names that stand for longer texts, as `$APP` for an origin.
    private var names: [(String, String)] = []
    private var harness: AdmissionHarness?
    /// Requests whose outcomes are yet to be read, each with its line.
    private var asked: [(line: Int, text: String, fields: [String])] = []
    private var outcomes: [String] = []

    init(_ name: String, _ text: String) {
        self.name = name
        var block = ""
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init).enumerated() {
            if line.hasPrefix("```") {
                if block == "decisions" { judge() }
                block = block.isEmpty ? String(line.dropFirst(3)) : ""
                if block == "settings" { settings = "TOLLGATE_UPSTREAM_U=http://127.0.0.1:9\n" }
                if block == "decisions" { begin(index + 1) }
                if !["", "settings", "more settings", "names", "decisions"].contains(block) {
                    failures.append("\(name):\(index + 1): \"\(block)\" is no block, write settings, more settings, names or decisions")
                }
                continue
            }
            let whole = names.reduce(line) { $0.replacing($1.0, with: $1.1) }
            switch block {
            case "settings", "more settings": settings += whole + "\n"
            case "names": names.append((String(line.prefix { $0 != "=" }), String(whole.drop { $0 != "=" }.dropFirst())))
            case "decisions": read(whole, index + 1)
            default: break
            }
        }
        if !block.isEmpty { failures.append("\(name): its last block has no end") }
    }

    private mutating func begin(_ line: Int) {
        let files = [(name: "settings", bytes: Array(settings.utf8))]
        let loaded = Settings.load(SettingSources(files: files, environment: []) { _ in .failure(UnreadableFile(reason: "no file")) })
        let (found, rules) = (loaded.partial, loaded.partial.routes.map(\.rule))
        failures += loaded.findings.faults.map { "\(name):\(line): \($0.text)" }
        do {
            harness = AdmissionHarness(
                try Policy(
                    tiers: found.tiers, rules: rules, trust: AdmissionHarness.trust(requirements: RouteRule.requirements(of: rules)),
                    trustedProxies: found.trustedProxies, internals: found.internals.map(\.caller), cors: found.corsRule,
                    ownOrigin: OriginPattern.origin(ofURL: found.publicURL)))
        } catch {
            failures.append("\(name):\(line): \(error)")
        }
    }

    private mutating func read(_ line: String, _ number: Int) {
        if line.hasPrefix("    ") { return outcomes.append(String(line.dropFirst(4))) }
        if line.hasPrefix("  ") { return asked[asked.count - 1].fields.append(String(line.dropFirst(2))) }
        if !outcomes.isEmpty { judge() }
        if line.hasPrefix("wait ") {
            harness?.advance(milliseconds: UInt64(line.dropFirst(5)) ?? 0)
        } else if !line.isEmpty {
            asked.append((number, line, []))
        }
    }

    /// Decides the requests, and compares with their outcomes.
    private mutating func judge() {
        for request in asked {
            guard let harness else { continue }
            let judged = Self.ask(harness, request.text, request.fields)
            let wrong = Self.differences(judged, outcomes)
            failures += wrong.map { "\(name):\(request.line): \(request.text): \($0)" }
            if outcomes.isEmpty { failures.append("\(name):\(request.line): \(request.text) has no outcome") }
            count += 1
        }
        (asked, outcomes) = ([], [])
    }

    /// `METHOD PATH WORD…`, and fields with tokens in braces.
    private static func ask(_ harness: AdmissionHarness, _ line: String, _ fields: [String]) -> Judged {
        let words = line.split(separator: " ").map(String.init)
        var values: [String: String] = [:]
        for word in words.dropFirst(2) { values[String(word.prefix { $0 != "=" })] = String(word.drop { $0 != "=" }.dropFirst()) }
        var lines = ["\(words[0]) \(words[1]) HTTP/1.1", "Host: \(values["host"] ?? "gate.test")"]
        if let token = values["token"] { lines.append("Authorization: Bearer {\(token.replacing(";", with: " "))}") }
        if values["socket"] != nil { lines += handshake }
        let text = withTokens((lines + fields).joined(separator: "\n"))
        return harness.ask(
            text, from: values["from"] ?? "192.0.2.7", isTLS: values["tls"] != nil, certificate: (values["cert"] ?? "").split(separator: ",").map(String.init))
    }

    private static let handshake = [
        "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]

    private static func withTokens(_ text: String) -> String { text.replacing(/\{([^}]*)\}/) { token(String($0.output.1)) } }

    /// `SUBJECT KEY=VALUE…`: a token of the trusted issuer.
    private static func token(_ text: String) -> String {
        let words = text.split(separator: " ").map(String.init)
        let values = words.dropFirst().map { ($0.prefix { $0 != "=" }, String($0.drop { $0 != "=" }.dropFirst())) }
        let named = Dictionary(values.map { (String($0.0), $0.1) }) { $1 }
        let key = named["key"] == nil ? AdmissionHarness.key : AdmissionHarness.otherKey
        return AdmissionHarness.token(
            words[0], tier: named["tier"], lifetime: named["lifetime"].flatMap { Int64($0) } ?? 3_600,
            issuer: named["iss"] ?? AdmissionHarness.issuer, key: key
        ) { claims in
            claims.email = named["email"]
            claims.sessionID = named["session"]
            claims.authenticatedAt = named["age"].flatMap { Int64($0) }.map { AdmissionHarness.now.wall.seconds - $0 }
            (claims.actorType, claims.actorID) = (named["actor-type"], named["actor-id"])
            for (name, value) in values where name.hasPrefix("claim:") {
                _ = claims.add(String(name.dropFirst(6)), Int(value).map { .integer($0) } ?? .string(value))
            }
        }
    }

    /// Outcomes that do not hold. A list is compared as a whole.
    private static func differences(_ judged: Judged, _ outcomes: [String]) -> [String] {
        let all: [(String, ShadowSet)] = [("tier", .tier), ("limit", .limit), ("filter", .filter)]
        let shadowed = all.filter { judged.shadowed.contains($0.1) }.map(\.0).joined(separator: ",")
        let own = judged.answerLines.filter { !$0.hasPrefix("RateLimit") && !$0.hasPrefix("X-RateLimit") }
        let lists: [String: [String]] = ["identity": judged.identity, "answer": own, "header": judged.headers]
        let status = judged.status == 0 ? "passes" : "\(judged.status) \(judged.code)"
        let steps = judged.explanation.steps.map(\.name).joined(separator: ",")
        let path: String = judged.path ?? "as sent"
        let client: ClientAddress = judged.client
        let described: [(String, Any)] = [
            ("auth", judged.auth), ("reason", judged.reason), ("source", judged.source), ("cors", judged.cors), ("dialect", judged.dialect),
            ("user", judged.userID), ("caller", judged.caller), ("verdict", judged.verdict), ("limit", judged.limit.result), ("path", path),
            ("client", client.address.text), ("certain", client.isCertain), ("trusted", client.peerIsTrusted), ("shadowed", shadowed),
            ("authorization", judged.forwardsAuthorization ? "forwarded" : "removed"), ("steps", steps), ("route", judged.route),
        ]
        let facts: [String: String] = Dictionary(described.map { ($0.0, "\($0.1)") }) { first, _ in first }
        var wanted: [String: [String]] = [:]
        var wrong: [String] = []
        for outcome in outcomes {
            let (kind, rest) = (String(outcome.prefix { $0 != " " }), String(outcome.drop { $0 != " " }.dropFirst()))
            switch kind {
            case "passes":
                let found = judged.status == 0 ? "passes \(judged.route)" : status
                if found != outcome { wrong.append("is \(found), not \(outcome)") }
            case "step":
                let (name, text) = (String(rest.prefix { $0 != ":" }), String(rest.drop { $0 != ":" }.dropFirst(2)))
                let found = judged.explanation.step(name) ?? ""
                let holds = text.hasPrefix("… ") ? found.contains(text.dropFirst(2)) : found == text
                if !holds { wrong.append("the step \(name) is \(found), not \(text)") }
            case "no": wanted[rest] = []
            case _ where lists[kind] != nil: wanted[kind, default: []].append(withTokens(rest))
            case _ where Int(kind) != nil:
                if status != outcome { wrong.append("is \(status), not \(outcome)") }
            default: if facts[kind] != rest { wrong.append("has \(kind) \(facts[kind] ?? "of no kind"), not \(rest)") }
            }
        }
        for (kind, lines) in wanted where lists[kind] != lines { wrong.append("has as \(kind) \(lists[kind] ?? ["nothing"]), not \(lines)") }
        return wrong
    }

    private static var folder: URL { URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Cases") }

    static func named(_ name: String) throws -> DecisionDocument {
        DecisionDocument(name, try String(contentsOf: folder.appending(path: name), encoding: .utf8))
    }

    static let names = ["admission.md", "clients.md", "cors.md", "hidden-routes.md", "sign-in.md"]
}

/// Requests to the routes of some settings, and the decision about each.
@Suite struct DecisionCaseTests {
    @Test(arguments: DecisionDocument.names) func everyDecisionIsAsWritten(_ name: String) throws {
        let document = try DecisionDocument.named(name)
        #expect(document.count > 10)
        for failure in document.failures { Issue.record("\(failure)") }
    }

    @Test(arguments: [
        ("GET /a\n    passes b", "a.md:5: GET /a: is passes a, not passes b"), ("GET /a\n    401 X", "a.md:5: GET /a: is passes, not 401 X"),
        ("GET /b\n    answer A: b", "a.md:5: GET /b: has as answer [], not [\"A: b\"]"), ("GET /a", "a.md:5: GET /a has no outcome"),
        ("GET /a\n    nonsense b", "a.md:5: GET /a: has nonsense of no kind, not b"), ("GET /a\n    passes a", nil),
        ("GET /a\nGET /a\n    step client: x", "a.md:5: GET /a: the step client is 192.0.2.7, not x"),
    ] as [(String, String?)])
    func aDifferenceNamesItsLine(_ decisions: String, _ failure: String?) {
        let text = "```settings\nTOLLGATE_ROUTE_A=\"/a upstream=u auth=none\"\n```\n```decisions\n\(decisions)\n```"
        #expect(DecisionDocument("a.md", text).failures.first == failure)
    }
}
