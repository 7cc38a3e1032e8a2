import Foundation
import TestServers
import TestThreads
import Testing

/// What services are told of accounts and asked about them, by gateways that run.
@Suite(.ownThread) struct AccountEventTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private let folder: Folder

    init() throws {
        folder = try Folder()
        try folder.write("secret", Self.secret)
    }

    /// The line of a subscriber, or of the hook.
    private func line(_ name: String, _ url: String, _ more: String = "private=on") -> String {
        "TOLLGATE_\(name)=\"url=\(url) secret-file=\(folder.file("secret")) \(more)\""
    }

    private static func types(_ requests: [Message]) -> [String] { requests.compactMap { try? JSON($0.text)["type"].text } }

    /// Throws unless the message is signed as the specification says; its own library must say so too, where it is installed.
    private func verify(_ request: Message) throws {
        let script = """
            import base64, hashlib, hmac, sys
            secret, id, time, signature = sys.argv[1:5]
            body = sys.stdin.read()
            key = base64.b64decode(secret.removeprefix("whsec_"))
            digest = hmac.new(key, f"{id}.{time}.{body}".encode(), hashlib.sha256).digest()
            assert signature == "v1," + base64.b64encode(digest).decode(), signature
            if len(sys.argv) > 5:
                from standardwebhooks.webhooks import Webhook
                Webhook(secret).verify(body, {"webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature})
            """
        let fields = ["webhook-id", "webhook-timestamp", "webhook-signature"].map { request[$0] ?? "" }
        let isInstalled = PythonTools.hasStandardWebhooks
        try mustRun(
            isInstalled ? PythonTools.python : "python3", ["-c", script, Self.secret] + fields + (isInstalled ? ["library"] : []),
            input: request.text)
    }

    @Test func eventsArriveSignedInTheOrderOfTheirAccount() throws {
        let crm = try Upstream()
        let gateway = try Gateway("\(Gateway.contracts)\n\(line("EVENTS_CRM", crm.url + "/in?key=1"))", folder: folder)
        try eventually("the gateway sends") { try gateway.sends(to: "crm") }
        let ada = try gateway.register("ada@example.org")
        #expect(try gateway.command(["user", "set-tier", "ada@example.org", "premium"]).code == 0)
        #expect(try gateway.command(["user", "delete", "ada@example.org"]).code == 0)
        let requests = try crm.requests.wait(for: "all events") { $0.count >= 4 }
        #expect(Self.types(requests) == ["account.created", "tier.changed", "account.deleted", "account.erased"])
        for request in requests {
            try verify(request)
            #expect(try JSON(request.text)["data"]["account"].text == ada.user && !request.text.contains("ada@"))
        }
        let list = try gateway.command(["events", "list", "--account", ada.user])
        #expect(list.output.contains("tier.changed") && list.output.contains(#""tier":"premium""#), "\(list)")
        let ids = requests.map { $0["webhook-id"] ?? "" }
        let page = try JSON(try gateway.command(["events", "list", "--after", ids[1], "--json"]).output)
        #expect(page["events"].array.map { $0["id"].text } == ids.dropFirst(2).map { Optional($0) } && page["next"].text == ids[3])
        #expect(try gateway.command(["events", "replay", "CRM", "--after", ids[2]]).code == 0)
        try crm.requests.wait(for: "the last one again") { $0.count == 5 && $0[4]["webhook-id"] == ids[3] }
        #expect(try gateway.command(["events", "replay", "erp", "--after", ids[2]]).code == 1)
    }

    @Test func whatIsRefusedComesAgainAndRedirectsAreNotFollowed() throws {
        let elsewhere = try Upstream()
        let answers = Watched(["302 Found\r\nLocation: \(elsewhere.url)/", "500 Oops"])
        let crm = try Upstream { _, connection in
            let next = answers.now.first ?? "200 OK"
            answers.change { $0 = Array($0.dropFirst()) }
            try connection.send("HTTP/1.1 \(next)\r\nContent-Length: 0\r\n\r\n")
        }
        let gateway = try Gateway("\(Gateway.contracts)\n\(line("EVENTS_CRM", crm.url, "private=on kinds=account.*"))", folder: folder)
        try eventually("the gateway sends") { try gateway.sends(to: "crm") }
        _ = try gateway.register("ada@example.org")
        let requests = try crm.requests.wait(for: "three tries") { $0.count == 3 }
        #expect(Set(requests.map { $0["webhook-id"] ?? "" }).count == 1 && elsewhere.requests.now.isEmpty)
        for request in requests { try verify(request) }
        #expect(gateway.process.complaints.now.contains { $0.contains("events do not arrive") && $0.contains("302") })
    }

    /// Whatever name leads there: `check` knows only addresses.
    @Test func privateAddressesAreRefused() throws {
        let crm = try Upstream()
        let lines = [line("EVENTS_A", "http://127.1:\(crm.port)/", ""), line("EVENTS_B", "http://crm.localhost:\(crm.port)/", "")]
        let gateway = try Gateway("\(Gateway.contracts)\n\(lines.joined(separator: "\n"))", folder: folder)
        try eventually("the gateway sends") {
            try gateway.sends(to: "a") && gateway.sends(to: "b")
        }
        _ = try gateway.register("ada@example.org")
        try eventually("both are refused") {
            try ["a", "b"].allSatisfy { try gateway.metric("tollgate_events_total", "subscriber=\"\($0)\"", "failed") > 0 }
        }
        #expect(gateway.process.complaints.now.contains { $0.contains("events do not arrive") && $0.contains("is private") })
        #expect(crm.connections.now == 0)
        let doctor = try gateway.command(["doctor"])
        #expect(doctor.output.contains("events of a: 1 event did not arrive yet"), "\(doctor.output)")
    }

    /// One gateway is killed while it sends: nothing is lost, the events of each account come in their order, and one that comes again has
    /// the id and the content that it had.
    @Test func anotherGatewayGoesOnWhereOneWasKilled() throws {
        let isKilled = Watched(false)
        let crm = try Upstream { request, connection in
            if isKilled.now || !request.text.contains("tier.changed") { try Upstream.ok(request, connection) }
        }
        let fleet = try Fleet(2, .postgres, line("EVENTS_CRM", crm.url))
        try eventually("one sends") { try fleet.gateways.contains { try $0.sends(to: "crm") } }
        let sender = try fleet.gateways[0].sends(to: "crm") ? 0 : 1
        let left = fleet[1 - sender]
        func setTier(_ user: String, _ tier: String) throws {
            #expect(try fleet.admin(1 - sender, "PUT /admin/api/users/\(user)/tier", #"{"tier":"\#(tier)"}"#).status == 200)
        }
        var users: [String] = []
        for number in 0..<3 {
            users.append(try left.register("u\(number)@example.org").user)
            for tier in ["premium", "free"] { try setTier(users[number], tier) }
        }
        try crm.requests.wait(for: "events without an answer") { Self.types($0).contains("tier.changed") }
        fleet[sender].process.kill()
        isKilled.change { $0 = true }
        for number in 3..<6 { users.append(try left.register("u\(number)@example.org").user) }
        for user in users { try setTier(user, "premium") }
        let all = users
        let expected = try all.map { user in
            try JSON(fleet.admin(1 - sender, "GET /admin/api/events?account=\(user)").text)["events"].array.map { $0["id"].text ?? "" }
        }
        #expect(expected.map(\.count) == [4, 4, 4, 2, 2, 2])
        let told = try crm.requests.wait(for: "all events", seconds: 90) { requests in
            Set(requests.map { $0["webhook-id"] ?? "" }).isSuperset(of: expected.joined())
        }
        var firsts: [String: [String]] = [:]
        var contents: [String: String] = [:]
        for request in told {
            let (id, user) = (request["webhook-id"] ?? "", try JSON(request.text)["data"]["account"].text ?? "")
            if let content = contents[id] {
                #expect(content == request.text, "it comes again")
            } else {
                contents[id] = request.text
                firsts[user, default: []].append(id)
            }
        }
        #expect(all.map { firsts[$0] ?? [] } == expected && told.count > contents.count)
        let events = try JSON(fleet.admin(1 - sender, "GET /admin/api/events?account=\(all[0])").text)
        let id = events["next"].text ?? ""
        #expect(events["events"].array.last?["id"].text == id)
        let replay = "POST /admin/api/events/crm/replay"
        #expect(try fleet.admin(1 - sender, replay, #"{"after":"\#(id)"}"#).status == 200)
        #expect(try fleet.admin(1 - sender, replay, #"{"after":"\#(all[0])"}"#).status == 404)
        #expect(try fleet.admin(1 - sender, "POST /admin/api/events/erp/replay", #"{"after":"\#(id)"}"#).status == 404)
        try crm.requests.wait(for: "those behind it again") { requests in
            requests.count { $0["webhook-id"] == expected[5][1] } == 2
        }
        let known = try JSON(fleet.admin(1 - sender, "GET /admin/api/event-subscribers").text)["subscribers"].array
        #expect(known.map { [$0["name"].text, $0["parked"].int.map(String.init)] } == [["crm", "0"]])
    }

    // MARK: the hook

    @Test func theHookDecidesOverSignUps() throws {
        let answers = Watched("{}")
        let hook = try Upstream { _, connection in
            let body = answers.now
            if body == "late" { return }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
        let gateway = try Gateway("\(Gateway.contracts)\n\(line("HOOK_SIGNUP", hook.url, "timeout=300ms"))", folder: folder)
        func signUp(_ name: String, _ path: String = "auth/signup") throws -> Message {
            try gateway.send("POST /\(path)", #"{"email":"\#(name)@example.org","password":"correct horse battery"}"#)
        }
        #expect(try signUp("ada").status == 200)
        let request = try #require(hook.requests.now.first)
        try verify(request)
        let data = try JSON(request.text)["data"]
        #expect(data["contract"].text == "dlauth" && data["email"].text == "ada@example.org" && data["address"].text == "127.0.0.1")
        answers.change { $0 = #"{"reject":"Ask your administrator."}"# }
        for path in ["auth/signup", "api/v1/auth/register"] {
            let refused = try signUp("bob", path)
            #expect(refused.status == 403 && refused.text.contains("Ask your administrator."), "\(refused.text)")
        }
        answers.change { $0 = "late" }
        #expect(try signUp("eve").status == 503)
        answers.change { $0 = "no JSON" }
        #expect(try signUp("eve").status == 503)
        try gateway.reload("\(Gateway.contracts)\n\(line("HOOK_SIGNUP", hook.url, "timeout=300ms failure=open"))")
        for (name, answer) in [("eve", "no JSON"), ("kim", "late")] {
            answers.change { $0 = answer }
            #expect(try signUp(name).status == 200)
        }
        hook.stop()
        #expect(try signUp("lee").status == 200)
        #expect(try gateway.metric("tollgate_signup_hook_total", "failed") == 5)
        let users = try gateway.command(["user", "list"]).output
        #expect(users.contains("ada@") && users.contains("eve@") && !users.contains("bob@"))
    }
}

extension Gateway {
    /// Whether it is the one that sends events to a service.
    fileprivate func sends(to name: String) throws -> Bool {
        try askAdmin("/metrics").text.contains("tollgate_events_pending{subscriber=\"\(name)\"")
    }
}
