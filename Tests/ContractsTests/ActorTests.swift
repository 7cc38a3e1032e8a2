import Contracts
import Credentials
import Foundation
import Gate
import Stories
import Testing

/// A token with an actor opens routes, and no endpoint of a contract or page.
@Suite struct ActorTests {
    private let world: ContractWorld

    init() throws { world = try ContractWorld() }

    /// An anonymous account: its id, session token and refresh token.
    private func openAccount() async throws -> (user: String, session: String, refresh: String) {
        let answer = try await world.ask("POST", "/auth/user", [], [])
        let members = try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: String])
        return (try #require(members["userId"]), try #require(members["sessionToken"]), try #require(members["refreshToken"]))
    }

    private func actorToken(_ session: String, _ type: String, _ id: String) async throws -> String {
        let body = #"{"actorType":"\#(type)","actorId":"\#(id)"}"#
        let answer = try await world.ask("POST", "/auth/access-token", ["Authorization: Bearer \(session)"], Array(body.utf8))
        let members = try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: String])
        return try #require(members["accessToken"])
    }

    /// Sends a request that most endpoints would accept if they ignored the actor.
    private func ask(
        _ place: MountedEndpoint, _ method: String, _ bearer: String?, email: String = "ada@example.org", refresh: String = ""
    ) async throws -> StoryAnswer {
        let target = place.endpoint.isPrefix ? place.path + "/0193a1b2-0000-7000-8000-000000000001" : place.path
        let body =
            #"{"email":"\#(email)","password":"correct horse","new_password":"correct horse","type":"email","token":"1","code":"1","refresh":"\#(refresh)","refreshToken":"\#(refresh)","refresh_token":"\#(refresh)","actorType":"merchant","actorId":"m1"}"#
        return try await world.ask(method, target, bearer.map { ["Authorization: Bearer \($0)"] } ?? [], Array(body.utf8))
    }

    private static func code(_ answer: StoryAnswer, _ dialect: Dialect) -> String? {
        guard let members = try? JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any] else { return nil }
        if let error = members["error"] as? [String: Any] { return error["code"] as? String }
        return ([Dialect(.dlauth), .oauth].contains(dialect) ? members["error"] : members["code"]) as? String
    }

    private func refreshByOAuth(_ token: String, _ fields: [String] = []) async throws -> String {
        let answer = try await world.ask("POST", "/oauth/token", fields, Array("grant_type=refresh_token&refresh_token=\(token)".utf8))
        return "\(answer.status) \(Self.code(answer, .oauth) ?? "")"
    }

    @Test func noEndpointOfTheCatalogueOpensToAnActor() async throws {
        let (user, session, refresh) = try await openAccount()
        try await world.act(["grant", user, "merchant", "m1"])
        let actors = [
            "a merchant": try await actorToken(session, "merchant", "m1"), "the user": try await actorToken(session, "user", user),
            "a minted one": try world.minted(user) {
                $0.actorType = "merchant"
                $0.actorID = "m1"
            },
            "a type alone": try world.minted("service") { $0.actorType = "merchant" },
            "an id alone": try world.minted("service") { $0.actorID = "m1" },
        ]
        #expect(Set(world.endpoints.map(\.endpoint.name)) == Set(Catalogue.endpoints.map(\.name)))
        for place in world.endpoints {
            for (who, token) in actors {
                for method in place.endpoint.methods {
                    let answer = try await ask(place, method, token, refresh: refresh)
                    let expected = place.endpoint.dialect == Dialect(.dlauth) ? "forbidden" : "FORBIDDEN"
                    let code = Self.code(answer, place.endpoint.dialect)
                    #expect(answer.status == 403 && code == expected, "\(method) \(place.path), \(who): \(answer.status)")
                }
            }
        }
        for (who, token) in actors {
            #expect(try await refreshByOAuth(refresh, ["Authorization: Bearer \(token)"]) == "403 access_denied", "\(who)")
            #expect(try await refreshByOAuth(token) == "400 invalid_grant", "\(who)")
        }
        // Session and refresh token are as they were.
        #expect(try await world.ask("GET", "/auth/user", ["Authorization: Bearer \(session)"], []).status == 200)
        let refreshed = try await world.ask("POST", "/auth/refresh", [], Array(#"{"refreshToken":"\#(refresh)"}"#.utf8))
        #expect(refreshed.status == 200)
        #expect(try await refreshByOAuth(refresh) == "200 ")
    }

    /// Clients send old tokens along: an invalid one must not keep them from signing in again.
    @Test func whereNoBearerIsAskedForOnlyAGoodOneOfAnActorCounts() async throws {
        let (user, session, refresh) = try await openAccount()
        let expired = try await actorToken(session, "user", user)
        try await world.wait(seconds: 931)
        let (ended, endedSession, _) = try await openAccount()
        let orphan = try await actorToken(endedSession, "user", ended)
        #expect(try await world.ask("POST", "/auth/signout", ["Authorization: Bearer \(endedSession)"], []).status == 200)
        let (_, live, _) = try await openAccount()
        let bearers = [
            "no token": "nonsense", "an expired actor's": expired, "an actor's whose session has ended": orphan,
            "a forger's": try world.forged(user) { $0.actorType = "merchant" }, "a session's": live, "a refresh token": refresh,
        ]
        for place in world.endpoints where place.endpoint.auth == .none {
            for method in place.endpoint.methods {
                let plain = try await ask(place, method, nil, email: "nobody")
                for (which, bearer) in bearers {
                    let answer = try await ask(place, method, bearer, email: "nobody")
                    let codes = [plain, answer].map { Self.code($0, place.endpoint.dialect) }
                    #expect(answer.status == plain.status && codes[0] == codes[1], "\(method) \(place.path), \(which): \(answer.status)")
                }
            }
        }
    }
}
