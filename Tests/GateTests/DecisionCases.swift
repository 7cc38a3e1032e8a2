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
        var (block, opened) = ("", 0)
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init).enumerated() {
            if line.hasPrefix("```") {
                if block == "decisions" { judge() }
                if !block.isEmpty, line != "```" { fail(opened, "the block has no end") }
                opened = index + 1
                block = block.isEmpty ? String(line.dropFirst(3)) : ""
                if block == "settings" { settings = "TOLLGATE_UPSTREAM_U=http://127.0.0.1:9\n" }
                if block == "decisions" { begin(index + 1) }
                if !["", "settings", "more settings", "names", "decisions"].contains(block) {
                    fail(index + 1, "\"\(block)\" is no block, write settings, more settings, names or decisions")
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
        if !block.isEmpty { fail(opened, "the block has no end") }
    }

    private mutating func fail(_ line: Int, _ text: String) { failures.append("\(name):\(line): \(text)") }

    private mutating func begin(_ line: Int) {
        let files = [(name: "settings", bytes: Array(settings.utf8))]
        let loaded = Settings.load(SettingSources(files: files, environment: []) { _ in .failure(UnreadableFile(reason: "no file")) })
        let (found, rules) = (loaded.partial, loaded.partial.routes.map(\.rule))
        for fault in loaded.findings.faults { fail(line, fault.text) }
        do {
            harness = AdmissionHarness(
                try Policy(
                    tiers: found.tiers, rules: rules, trust: AdmissionHarness.trust(requirements: RouteRule.requirements(of: rules)),
                    trustedProxies: found.trustedProxies, internals: found.internals.map(\.caller), cors: found.corsRule,
                    ownOrigin: OriginPattern.origin(ofURL: found.publicURL), denyFrom: found.denyFrom))
        } catch {
            fail(line, "\(error)")
        }
    }

    private mutating func read(_ line: String, _ number: Int) {
        if line.hasPrefix("  ") {
            for token in line.matches(of: Self.tokenInBraces) { checkToken(String(token.output.1), number) }
            guard let last = asked.indices.last else { return fail(number, "\(line.drop { $0 == " " }) has no request before it") }
            if line.hasPrefix("    ") { return outcomes.append(String(line.dropFirst(4))) }
            return asked[last].fields.append(String(line.dropFirst(2)))
        }
        if !outcomes.isEmpty { judge() }
        if line.hasPrefix("wait ") {
            guard let milliseconds = UInt64(line.dropFirst(5)) else { return fail(number, "\(line) names no number of milliseconds") }
            harness?.advance(milliseconds: milliseconds)
        } else if !line.isEmpty {
            checkRequest(line, number)
            asked.append((number, line, []))
        }
    }

    /// `NAME=VALUE`, or a name alone.
    private static func pair(_ word: some StringProtocol) -> (name: String, value: String) {
        (String(word.prefix { $0 != "=" }), String(word.drop { $0 != "=" }.dropFirst()))
    }

    private mutating func checkRequest(_ line: String, _ number: Int) {
        for word in line.split(separator: " ").dropFirst(2) {
            let (name, value) = Self.pair(word)
            switch name {
            case "host", "from", "cert": break
            case "token": checkToken(value.replacing(";", with: " "), number)
            case "tls", "socket": if value != "on" { fail(number, "\(word) is no word, write \(name)=on or leave it out") }
            default: fail(number, "\(word) is no word, the words are host=, from=, tls=on, socket=on, cert= and token=")
            }
        }
    }

    private mutating func checkToken(_ text: String, _ number: Int) {
        for word in text.split(separator: " ").dropFirst() {
            let (key, value) = Self.pair(word)
            switch key {
            case "tier", "iss", "key", "email", "session", "actor-type", "actor-id": break
            case "lifetime", "age": if Int64(value) == nil { fail(number, "\(word) is no number of seconds") }
            default: if !key.hasPrefix("claim:") { fail(number, "\(word) is no key of a token") }
            }
        }
    }

    /// Decides the requests, and compares with their outcomes.
    private mutating func judge() {
        for request in asked {
            guard let harness else { continue }
            let judged = Self.ask(harness, request.text, request.fields)
            let wrong = Self.differences(judged, outcomes)
            for difference in wrong { fail(request.line, "\(request.text): \(difference)") }
            if outcomes.isEmpty { fail(request.line, "\(request.text) has no outcome") }
            count += 1
        }
        (asked, outcomes) = ([], [])
    }

    /// `METHOD PATH WORD…`, and fields with tokens in braces.
    private static func ask(_ harness: AdmissionHarness, _ line: String, _ fields: [String]) -> Judged {
        let words = line.split(separator: " ").map(String.init)
        var values: [String: String] = [:]
        for (name, value) in words.dropFirst(2).map(pair) { values[name] = value }
        var lines = ["\(words.prefix(2).joined(separator: " ")) HTTP/1.1", "Host: \(values["host"] ?? "gate.test")"]
        if let token = values["token"] { lines.append("Authorization: Bearer {\(token.replacing(";", with: " "))}") }
        if values["socket"] != nil { lines += handshake }
        let text = withTokens((lines + fields).joined(separator: "\n"))
        return harness.ask(
            text, from: values["from"] ?? "192.0.2.7", isTLS: values["tls"] != nil,
            certificate: (values["cert"] ?? "").split(separator: ",").map(String.init))
    }

    private static let handshake = [
        "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]

    private static var tokenInBraces: Regex<(Substring, Substring)> { /\{([^}]*)\}/ }
    private static func withTokens(_ text: String) -> String { text.replacing(tokenInBraces) { token(String($0.output.1)) } }

    /// `SUBJECT KEY=VALUE…`: a token of the trusted issuer.
    private static func token(_ text: String) -> String {
        let words = text.split(separator: " ").map(String.init)
        let values = words.dropFirst().map { pair($0) }
        let named = Dictionary(values.map { ($0.name, $0.value) }) { $1 }
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

    private static func name(of dialect: Dialect) -> String {
        switch dialect {
        case .problem: "problem"
        case .grpc: "grpc"
        default: ContractID(rawValue: dialect.rawValue)?.name ?? "\(dialect.rawValue)"
        }
    }

    /// Outcomes that do not hold. A list is compared as a whole.
    private static func differences(_ judged: Judged, _ outcomes: [String]) -> [String] {
        let all: [(String, ShadowSet)] = [("tier", .tier), ("limit", .limit), ("filter", .filter), ("app", .app)]
        let shadowed = all.filter { judged.shadowed.contains($0.1) }.map(\.0).joined(separator: ",")
        let own = judged.answerLines.filter { !$0.hasPrefix("RateLimit") && !$0.hasPrefix("X-RateLimit") }
        let lists: [String: [String]] = ["identity": judged.identity, "answer": own, "header": judged.headers]
        let status = judged.status == 0 ? "passes" : "\(judged.status) \(judged.code)"
        let steps = judged.explanation.steps.map(\.name).joined(separator: ",")
        let path: String = judged.path ?? "as sent"
        let client: ClientAddress = judged.client
        let described: [(String, Any)] = [
            ("auth", judged.auth), ("reason", judged.reason), ("source", judged.source), ("cors", judged.cors),
            ("dialect", Self.name(of: judged.dialect)),
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
        for (kind, lines) in wanted where lists[kind] != lines {
            wrong.append("has as \(kind) \(lists[kind] ?? ["nothing"]), not \(lines)")
        }
        return wrong
    }

    private static var folder: URL { URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Cases") }

    static func named(_ name: String) throws -> DecisionDocument {
        DecisionDocument(name, try String(contentsOf: folder.appending(path: name), encoding: .utf8))
    }

    static let names = ["addresses.md", "admission.md", "clients.md", "cors.md", "hidden-routes.md", "sign-in.md"]
}

/// Requests to the routes of some settings, and the decision about each.
@Suite struct DecisionCaseTests {
    @Test(arguments: DecisionDocument.names) func everyDecisionIsAsWritten(_ name: String) throws {
        let document = try DecisionDocument.named(name)
        #expect(document.count > 10)
        for failure in document.failures { Issue.record("\(failure)") }
    }

    @Test(
        arguments: [
            ("GET /a\n    passes b", "a.md:5: GET /a: is passes a, not passes b"),
            ("GET /a\n    401 X", "a.md:5: GET /a: is passes, not 401 X"),
            ("GET /b\n    answer A: b", "a.md:5: GET /b: has as answer [], not [\"A: b\"]"), ("GET /a", "a.md:5: GET /a has no outcome"),
            ("GET /a\n    nonsense b", "a.md:5: GET /a: has nonsense of no kind, not b"), ("GET /a\n    passes a", nil),
            ("GET /a\nGET /a\n    step client: x", "a.md:5: GET /a: the step client is 192.0.2.7, not x"),
            ("    passes a", "a.md:5: passes a has no request before it"),
            ("GET /a\n    passes a\n\n    401 X", "a.md:8: 401 X has no request before it"),
            ("  Cookie: a", "a.md:5: Cookie: a has no request before it"),
            ("GET /a\n  A: {u age=x}\n    passes a", "a.md:6: age=x is no number of seconds"),
            (
                "GET /a form=1.2.3.4\n    passes a",
                "a.md:5: form=1.2.3.4 is no word, the words are host=, from=, tls=on, socket=on, cert= and token="
            ),
            ("GET /a tls=off\n    passes a", "a.md:5: tls=off is no word, write tls=on or leave it out"),
            ("GET /a socket\n    passes a", "a.md:5: socket is no word, write socket=on or leave it out"),
            ("GET /a token=u;teir=x\n    passes a", "a.md:5: teir=x is no key of a token"),
            ("GET /a token=u;lifetime=1h\n    passes a", "a.md:5: lifetime=1h is no number of seconds"),
            ("wait 1s\nGET /a\n    passes a", "a.md:5: wait 1s names no number of milliseconds"),
            ("GET /a\n    passes a\n```\n```names", "a.md:8: the block has no end"),
            ("GET /a\n    passes a\n```names\nA=b", "a.md:4: the block has no end"),
        ] as [(String, String?)])
    func aDifferenceNamesItsLine(_ decisions: String, _ failure: String?) {
        let hasEnd = !decisions.contains("```")
        let text = "```settings\nTOLLGATE_ROUTE_A=\"/a upstream=u auth=none\"\n```\n```decisions\n\(decisions)" + (hasEnd ? "\n```" : "")
        #expect(DecisionDocument("a.md", text).failures.first == failure)
    }
}
