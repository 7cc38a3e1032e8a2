import Foundation
import TestServers
import TestThreads
import Testing

/// An MCP server behind the gateway, whose clients find the authorization server of somebody else by the gateway's metadata.
@Suite(.ownThread) struct ProtectedResourceTests {
    /// Answers as an MCP server that has nothing to offer.
    private static func server() throws -> Upstream {
        try Upstream { request, connection in
            guard request.method == "POST", let call = try? JSON(request.text), let id = call["id"].number else {
                return try connection.send("HTTP/1.1 \(request.method == "POST" ? 202 : 405) X\r\nContent-Length: 0\r\n\r\n")
            }
            var result = "{}"
            if call["method"].text == "initialize" {
                let version = call["params"]["protocolVersion"].text ?? ""
                result = #"{"protocolVersion":"\#(version)","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}"#
            } else if call["method"].text == "tools/list" {
                result = #"{"tools":[{"name":"weather","inputSchema":{"type":"object"}}]}"#
            }
            let body = #"{"jsonrpc":"2.0","id":\#(Int(id)),"result":\#(result)}"#
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
    }

    /// Gives every client a token for the resource that it asks for.
    private static func authorizationServer() throws -> Upstream {
        try Upstream { request, connection in
            let issuer = "http://\(request["Host"] ?? "")"
            var body =
                #"{"issuer":"\#(issuer)","token_endpoint":"\#(issuer)/token","response_types_supported":["code"]"#
                + #","authorization_endpoint":"\#(issuer)/authorize","grant_types_supported":["client_credentials"]}"#
            if request.target == "/token" {
                let form = URLComponents(string: "http://x/?\(request.text)")?.queryItems ?? []
                func value(_ name: String) -> String { form.first { $0.name == name }?.value?.removingPercentEncoding ?? "" }
                let until = Int(Date().timeIntervalSince1970) + 600
                let token = try IssuerKey(.hs256(secret: secret)).token(
                    #"{"iss":"\#(issuer)","sub":"agent","aud":"\#(value("resource"))","exp":\#(until),"scope":"\#(value("scope"))"}"#)
                body = #"{"access_token":"\#(token)","token_type":"Bearer","expires_in":600}"#
            }
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
    }

    private static let secret = "a secret that the authorization server has in common with us"

    private let (upstream, server): (Upstream, Upstream)
    private let gateway: Gateway

    init() throws {
        (upstream, server) = (try Self.server(), try Self.authorizationServer())
        let folder = try Folder()
        try folder.write("secret", Self.secret)
        let issuer = "http://127.0.0.1:\(server.port)"
        let settings = """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_TRUST_AS="issuer=\(issuer) audience=nothing-else secret-file=\(folder.file("secret"))"
            TOLLGATE_ROUTE_MCP="/mcp* upstream=u scope=mcp:read"
            TOLLGATE_ROUTE_OTHER="/other upstream=u"
            TOLLGATE_RESOURCE_MCP="path=/mcp scopes=mcp:read issuers=as"
            """
        gateway = try Gateway(settings)
        // The resource is named by the port, which is known only now.
        try gateway.reload("TOLLGATE_PUBLIC_URL=http://127.0.0.1:\(gateway.port)\n" + settings)
    }

    @Test func theDocumentIsThereForEveryPage() throws {
        let answer = try gateway.ask("GET /.well-known/oauth-protected-resource/mcp", ["Origin: https://any.test"])
        #expect(answer.status == 200 && answer["Access-Control-Allow-Origin"] == "*")
        let document = try JSON(answer.text)
        #expect(document["resource"].text == "http://127.0.0.1:\(gateway.port)/mcp")
        #expect(document["authorization_servers"].array.map(\.text) == ["http://127.0.0.1:\(server.port)"])
        #expect(document["scopes_supported"].array.map(\.text) == ["mcp:read"])
        #expect(document["dpop_signing_alg_values_supported"].array.contains { $0.text == "ES256" })
        for path in ["", "/", "/mcp/", "/other"] {
            #expect(try gateway.ask("GET /.well-known/oauth-protected-resource\(path)").status == 404, "\(path)")
        }
        let refused = try gateway.ask("POST /mcp", body: [])
        #expect(refused.status == 401 && refused["WWW-Authenticate"]?.contains("resource_metadata=\"http://127.0.0.1:") == true)
    }

    @Test(.enabled(if: PythonTools.hasMCPClient)) func aClientOfMCPFindsItsTokenByItself() throws {
        let script = """
            import asyncio, sys, httpx2
            from mcp import ClientSession
            from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
            from mcp.client.streamable_http import streamable_http_client

            class Storage:
                tokens = info = None
                async def get_tokens(self): return self.tokens
                async def set_tokens(self, tokens): self.tokens = tokens
                async def get_client_info(self): return self.info
                async def set_client_info(self, info): self.info = info

            async def main(url, issuer):
                storage = Storage()
                provider = ClientCredentialsOAuthProvider(url, storage, "agent", "s3cret", issuer=issuer)
                async with httpx2.AsyncClient(auth=provider) as client, streamable_http_client(url, http_client=client) as streams:
                    async with ClientSession(streams[0], streams[1]) as session:
                        await session.initialize()
                        print([tool.name for tool in (await session.list_tools()).tools])
                print(storage.tokens.access_token)

            asyncio.run(main(*sys.argv[1:]))
            """
        let outcome = try run(
            PythonTools.python, ["-c", script, "http://127.0.0.1:\(gateway.port)/mcp", "http://127.0.0.1:\(server.port)"])
        let lines = outcome.output.split(separator: "\n").map(String.init)
        #expect(lines.first == "['weather']", "\(outcome)")
        #expect(upstream.requests.now.allSatisfy { $0["X-User-Id"] == "agent" && $0["Authorization"] == nil })
        let token = try #require(lines.last)
        #expect(try gateway.ask("GET /other", ["Authorization: Bearer \(token)"]).status == 401, "it is for the resource alone")
    }
}
