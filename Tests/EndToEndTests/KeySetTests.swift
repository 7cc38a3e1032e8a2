import Foundation
import TestThreads
import Testing

/// The keys of outside issuers, from their servers: fetched, refreshed, and kept when the server is away.
@Suite(.ownThread) struct KeySetTests {
    private static func settings(_ upstream: Upstream, _ url: String) -> String {
        """
        TOLLGATE_TRUST_OUTSIDE="issuer=https://outside.test audience=app jwks=\(url) algorithms=ES256,RS256"
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_ALL="/* upstream=u errors=problem"
        """
    }

    private static func bearer(_ key: IssuerKey) throws -> String {
        "Authorization: Bearer " + (try key.token(#"{"iss":"https://outside.test","aud":"app","sub":"ada","exp":\#(unixNow + 600)}"#))
    }

    /// A server of a key set that can be exchanged.
    private static func server(_ set: Watched<String>) throws -> Upstream {
        try Upstream { (_: Message, connection: Connection) in
            let body = set.now
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
    }

    @Test func aRotatedKeyIsFoundByItsUnknownName() throws {
        let (first, second) = (try IssuerKey(.es256, kid: "k1"), try IssuerKey(.es256, kid: "k2"))
        let set = Watched(try keySet(first))
        let (server, upstream) = (try Self.server(set), try Upstream())
        let gateway = try Gateway(Self.settings(upstream, server.url + "/keys"))
        let connection = try gateway.connect()
        let (old, new) = (try Self.bearer(first), try Self.bearer(second))
        try eventually("the keys are there") { try connection.ask("GET /x", [old]).status == 200 }
        #expect(try connection.ask("GET /x", [new]).status == 401)
        set.change { $0 = (try? keySet(first, second)) ?? "" }
        let (fetched, start) = (server.requests.now.count, ProcessInfo.processInfo.systemUptime)
        try eventually("the new key is fetched") { try connection.ask("GET /x", [new]).status == 200 }
        // At most one fetch in ten seconds for the sake of unknown names: one or two, unless it took longer.
        let more = max(0, Int((ProcessInfo.processInfo.systemUptime - start - 5) / 10))
        #expect(server.requests.now.count <= fetched + 2 + more)
        #expect(try connection.ask("GET /x", [old]).status == 200)
        #expect(try gateway.metric("tollgate_jwks_unknown_kid_total", #"issuer="outside""#) >= 1)
    }

    @Test func keysAreKeptWhenTheirServerIsAway() throws {
        let key = try IssuerKey(.rs256, kid: "k1")
        let (folder, upstream) = (try Folder(), try Upstream())
        let server = try Self.server(Watched(try keySet(key)))
        let bearer = try Self.bearer(key)
        do {
            let gateway = try Gateway(Self.settings(upstream, server.url + "/keys"), folder: folder)
            try eventually("the keys are there") { try gateway.ask("GET /x", [bearer]).status == 200 }
            server.stop()
            #expect(try gateway.ask("GET /x", [try Self.bearer(key)]).status == 200)
            #expect(try gateway.stop() == 0)
        }
        // Even a new start without the server knows them.
        let gateway = try Gateway(Self.settings(upstream, server.url + "/keys"), folder: folder)
        #expect(try gateway.ask("GET /x", [bearer]).status == 200)
        #expect(try JSON(gateway.askAdmin("/readyz").text)["status"].text != "unready")
    }

    @Test func withoutEverHavingHadKeysItIsNotTheCallersFault() throws {
        let (key, refusing, upstream) = (try IssuerKey(.es256, kid: "k1"), try Listening.refusing(), try Upstream())
        let gateway = try Gateway(Self.settings(upstream, "http://127.0.0.1:\(refusing.port)/keys"))
        let bearer = try Self.bearer(key)
        for _ in 0..<3 {
            let answer = try gateway.ask("GET /x", [bearer])
            #expect(answer.status == 503)
            #expect(answer["Retry-After"] != nil)
            #expect(try JSON(answer.text)["code"].text == "UNAVAILABLE")
        }
        // Tokens of others are none of its business.
        #expect(try gateway.ask("GET /x", ["Authorization: Bearer a.b.c"]).status == 401)
        #expect(try gateway.ask("GET /x", [try gateway.bearer("--sub", "ada")]).status == 200)
        let ready = try gateway.askAdmin("/readyz")
        #expect(ready.status == 200)
        #expect(try JSON(ready.text)["status"].text == "degraded")
        #expect(try gateway.accessLog(1)[0]["auth_outcome"].text == "unavailable")
    }

    @Test(arguments: ["", "{}", "{\"keys\":[]}", "<html>", "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}"])
    func aSetWithoutAUsableKeyDoesNotReplaceOne(_ nonsense: String) throws {
        let key = try IssuerKey(.es256, kid: "k1")
        let set = Watched(try keySet(key))
        let (server, upstream, folder) = (try Self.server(set), try Upstream(), try Folder())
        let settings = Self.settings(upstream, server.url + "/keys")
        let bearer = try Self.bearer(key)
        do {
            let gateway = try Gateway(settings, folder: folder)
            try eventually("the keys are there") { try gateway.ask("GET /x", [bearer]).status == 200 }
            #expect(try gateway.stop() == 0)
        }
        set.change { $0 = nonsense }
        let before = server.requests.now.count
        let gateway = try Gateway(settings, folder: folder)
        try server.requests.wait(for: "the fetch at start", until: { $0.count > before })
        try gateway.waitForLog("outside")
        #expect(try gateway.ask("GET /x", [bearer]).status == 200)
    }

    @Test func aChangedFileIsReadAgain() throws {
        let (first, second) = (try IssuerKey(.es256, kid: "k1"), try IssuerKey(.es256, kid: "k2"))
        let (folder, upstream) = (try Folder(), try Upstream())
        try folder.write("keys.json", try keySet(first))
        let gateway = try Gateway(Self.settings(upstream, folder.file("keys.json")), folder: folder)
        let (old, new) = (try Self.bearer(first), try Self.bearer(second))
        #expect(try gateway.ask("GET /x", [old]).status == 200)
        #expect(try gateway.ask("GET /x", [new]).status == 401)
        try folder.write("keys.json", try keySet(second))
        try eventually("the new key counts") { try gateway.ask("GET /x", [new]).status == 200 }
        #expect(try gateway.ask("GET /x", [old]).status == 401, "a cached token does not outlive its key")
    }
}
