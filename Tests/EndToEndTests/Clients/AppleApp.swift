import Foundation

/// The calls of the `apple` document.
final class AppleApp {
    struct Session {
        let token: String
        let expiresAt: Double
        let sessionID: String
        let userID: String
    }

    private let baseURL: String
    private(set) var session: Session?

    init(_ baseURL: String) { self.baseURL = baseURL }

    /// The app takes a user for new whom Apple names.
    func completed(identityToken: String, givenName: String?, familyName: String?) async throws -> Session {
        if givenName != nil {
            let body: [String: Any] = ["idToken": identityToken, "firstName": givenName ?? "", "lastName": familyName ?? ""]
            return try await send("/registerUser", body)
        }
        return try await send("/login", ["idToken": identityToken])
    }

    private func send(_ path: String, _ body: [String: Any]) async throws -> Session {
        let (data, _) = try await AppNetwork.data(for: AppNetwork.request("POST", baseURL + path, body))
        guard let json = try? JSONSerialization.jsonObject(with: data) as? [String: Any], let body = json["body"] as? [String: Any],
            let token = body["token"] as? String, let expiresAt = body["expiresAt"] as? Double,
            let sessionID = body["sessionId"] as? String, let userID = body["userId"] as? String
        else { throw AppFault.invalidResponse }
        let session = Session(token: token, expiresAt: expiresAt, sessionID: sessionID, userID: userID)
        self.session = session
        return session
    }
}
