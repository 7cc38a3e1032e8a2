import Foundation
import TestServers
import TestThreads
import Testing

/// Switches that are thrown at gateways of one database while requests come in.
@Suite(.ownThread) struct SwitchLoadTests {
    /// A steady load: connections to all gateways, each of which sends one request of every kind in turn, over and over.
    private final class Load: Sendable {
        /// The answers to one kind of request over one connection, in their order: each, and how often it came in a row.
        typealias Runs = [(answer: String, count: Int)]

        /// The value of `X-Api-Key`.
        let key = Watched("none")
        private let runs: [Watched<[Runs]>]
        private let isOver = Watched(false)
        private let threads: Watched<[Background<Void>]> = Watched([])

        init(_ ports: [Int], _ kinds: [(target: String, client: String)]) {
            runs = ports.map { _ in Watched(kinds.map { _ in [] }) }
            let (key, isOver) = (key, isOver)
            let started = zip(ports, runs).map { port, runs in
                Background {
                    let connection = try Connection(port: port)
                    while !isOver.now {
                        for (number, kind) in kinds.enumerated() {
                            let answer = try connection.ask(
                                "GET \(kind.target)", ["X-Forwarded-For: \(kind.client)", "X-Api-Key: \(key.now)"])
                            let text = answer.status == 200 ? String(answer.text.prefix(4)) : "\(answer.status)"
                            runs.change { runs in
                                if runs[number].last?.answer != text { runs[number].append((text, 0)) }
                                runs[number][runs[number].count - 1].count += 1
                            }
                        }
                    }
                }
            }
            threads.change { $0 = started }
        }

        /// Waits until each kind of request has had its answer of `answers` many times in a row over each connection.
        func settle(_ what: String, _ answers: [String]) throws {
            for runs in runs {
                try runs.wait(for: what) { runs in
                    zip(runs, answers).allSatisfy { runs, answer in runs.last.map { $0.answer == answer && $0.count >= 25 } ?? false }
                }
            }
        }

        /// Ends it; answers what came of each connection.
        func end() throws -> [[Runs]] {
            isOver.change { $0 = true }
            for thread in threads.now { try thread.value() }
            return runs.map(\.now)
        }
    }

    /// Each switch changes the answers to the requests that it is for, once over each connection, and those to no other request.
    @Test func aSwitchUnderLoadChangesWhatItIsForAndNothingElse() throws {
        let folder = try Folder()
        try folder.write("blocked", "")
        let next = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"))
        let fleet = try Fleet(
            3, .postgres, "TOLLGATE_WORKERS=2", "TOLLGATE_TRUSTED_PROXIES=127.0.0.1", "TOLLGATE_DENY_FROM=\(folder.file("blocked"))",
            "TOLLGATE_UPSTREAM_NEXT=\"\(next.url)\"", "TOLLGATE_ROUTE_FEED=\"/feed upstream=u auth=none\"",
            "TOLLGATE_ROUTE_OTHER=\"/other upstream=u auth=none\"", "TOLLGATE_ROUTE_KEYED=\"/keyed upstream=u auth=key\"",
            "TOLLGATE_ROUTE_SPLIT=\"/split upstream=u auth=none split=0%:next split-by=address\"")
        try fleet.waitForTheBus()
        let (user, office, listed) = ("198.51.100.1", "192.0.2.1", "203.0.113.9")
        let load = Load(
            fleet.gateways.flatMap { [$0.port, $0.port] },
            [
                ("/feed", user), ("/feed", office), ("/other", user), ("/other", listed), ("/keyed", user), ("/split", user),
                ("/.well-known/jwks.json", user),
            ])
        var id = ""
        func maintenance(_ words: String...) throws {
            let outcome = try fleet[0].command(["maintenance"] + words)
            #expect(outcome.code == 0, "\(outcome)")
        }
        func admin(_ index: Int, _ methodAndTarget: String, _ json: String = "") throws -> Message {
            let answer = try fleet.admin(index, methodAndTarget, json)
            #expect(answer.status < 300, "\(answer)")
            return answer
        }
        let steps: [(name: String, act: () throws -> Void, answers: [String])] = [
            ("the start", {}, ["ok", "ok", "ok", "ok", "401", "ok"]),
            (
                "a route is closed", { try maintenance("on", "--route", "feed", "--allow", "192.0.2.0/24") },
                ["503", "ok", "ok", "ok", "401", "ok"]
            ),
            ("it is open", { _ = try admin(2, "DELETE /admin/api/maintenance/feed") }, ["ok", "ok", "ok", "ok", "401", "ok"]),
            (
                "all routes are closed", { _ = try admin(1, "PUT /admin/api/maintenance/all", #"{"allow":["192.0.2.0/24"]}"#) },
                ["503", "ok", "503", "503", "503", "503"]
            ),
            ("all are open", { try maintenance("off", "--all") }, ["ok", "ok", "ok", "ok", "401", "ok"]),
            (
                "a key is made",
                {
                    let made = try JSON(admin(0, "POST /admin/api/keys/api", #"{"name":"partner","tier":"free"}"#).text)
                    id = try must(made["id"])
                    let text = try must(made["key"])
                    load.key.change { $0 = text }
                }, ["ok", "ok", "ok", "ok", "ok", "ok"]
            ),
            ("a network is listed", { try folder.write("blocked", "203.0.113.0/24\n") }, ["ok", "ok", "ok", "403", "ok", "ok"]),
            (
                "a share grows", { _ = try admin(2, "PUT /admin/api/routes/split/split", #"{"percent":100}"#) },
                ["ok", "ok", "ok", "403", "ok", "next"]
            ),
            ("the list is empty", { try folder.write("blocked", "") }, ["ok", "ok", "ok", "ok", "ok", "next"]),
            ("the key is revoked", { _ = try admin(1, "DELETE /admin/api/keys/api/\(id)") }, ["ok", "ok", "ok", "ok", "401", "next"]),
            (
                "the share is the line's", { _ = try admin(0, "DELETE /admin/api/routes/split/split") },
                ["ok", "ok", "ok", "ok", "401", "ok"]
            ),
        ].map { ($0.0, $0.1, $0.2 + [#"{"ke"#]) }
        for step in steps {
            try step.act()
            try load.settle(step.name, step.answers)
        }
        let connections = try load.end()
        for runs in connections {
            for (number, runs) in runs.enumerated() {
                let expected = steps.map { $0.answers[number] }.reduce(into: [String]()) { if $0.last != $1 { $0.append($1) } }
                #expect(runs.map(\.answer) == expected, "request \(number)")
            }
        }
        // A request that passes is forwarded once, and one that is refused is not.
        let passed = connections.joined().joined().filter { ["ok", "next"].contains($0.answer) }
        #expect(passed.reduce(0) { $0 + $1.count } == fleet.upstream.requests.now.count + next.requests.now.count)
        #expect(passed.filter { $0.answer == "next" }.reduce(0) { $0 + $1.count } == next.requests.now.count)
    }
}
