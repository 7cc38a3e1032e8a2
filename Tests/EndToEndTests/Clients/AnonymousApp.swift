import Foundation
import FoundationNetworking

/// The `AuthManager` and the `APIClient` of the `anonymous` document; the latter repeats on every 401 without a limit.
final class AnonymousApp {
    struct Guest: Decodable {
        let userId: String
        let sessionToken: String
        let refreshToken: String
    }

    struct Verified: Decodable {
        struct User: Decodable {
            let id: String
            let email: String?
        }

        let sessionToken: String
        let refreshToken: String
        let user: User
    }

    private struct Refreshed: Decodable {
        let sessionToken: String
        let refreshToken: String
    }

    private let baseURL: String
    var sessionToken: String?
    private(set) var refreshToken: String?

    init(_ baseURL: String) { self.baseURL = baseURL }

    func createUser() async throws -> String {
        let guest: Guest = try await post("/auth/user", nil)
        (sessionToken, refreshToken) = (guest.sessionToken, guest.refreshToken)
        return guest.userId
    }

    func requestCode(_ email: String) async throws {
        struct Sent: Decodable {
            let success: Bool
            let expiresIn: Int
        }
        let sent: Sent = try await post("/auth/email/code", ["email": email])
        guard sent.success, sent.expiresIn == 600 else { throw AppFault.invalidResponse }
    }

    func login(email: String, code: String) async throws -> Verified.User {
        let response: Verified = try await post("/auth/email/verify", ["email": email, "code": code])
        (sessionToken, refreshToken) = (response.sessionToken, response.refreshToken)
        return response.user
    }

    func refreshTokens() async throws {
        guard let refreshToken else { throw AppFault.notSignedIn }
        let response: Refreshed = try await post("/auth/refresh", ["refreshToken": refreshToken])
        (sessionToken, self.refreshToken) = (response.sessionToken, response.refreshToken)
    }

    func accessToken(actorType: String, actorID: String) async throws -> String {
        struct Actor: Decodable { let accessToken: String }
        let actor: Actor = try await post("/auth/access-token", ["actorType": actorType, "actorId": actorID], bearer: sessionToken)
        return actor.accessToken
    }

    func authenticatedRequest(_ url: String) async throws -> Data {
        let (data, response) = try await AppNetwork.data(for: AppNetwork.request("GET", url, bearer: sessionToken))
        if response.statusCode == 401 {
            try await refreshTokens()
            return try await authenticatedRequest(url)
        }
        return data
    }

    private func post<Value: Decodable>(_ path: String, _ body: [String: Any]?, bearer: String? = nil) async throws -> Value {
        let (data, response) = try await AppNetwork.data(for: AppNetwork.request("POST", baseURL + path, body, bearer: bearer))
        guard response.statusCode == 200 else { throw AppFault.status(response.statusCode) }
        return try JSONDecoder().decode(Value.self, from: data)
    }
}
