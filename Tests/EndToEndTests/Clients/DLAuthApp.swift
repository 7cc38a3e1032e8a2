import Foundation
import FoundationNetworking

/// A client by the rules of the `dlauth` document, and with the published one's slip: it turns snake_case into camelCase
/// twice over, and so finds of a session's members only those of one word.
final class DLAuthApp {
    struct User: Decodable {
        let id: String
        let email: String?
        let phone: String?
        let metadata: [String: AnyValue]?
    }

    struct Session: Decodable {
        let accessToken: String
        let user: User?

        /// Below a decoder that has converted the members already: the first finds nothing.
        private enum CodingKeys: String, CodingKey {
            case accessToken = "access_token"
            case token, user
        }

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: CodingKeys.self)
            accessToken = try members.decodeIfPresent(String.self, forKey: .accessToken) ?? members.decode(String.self, forKey: .token)
            user = try members.decodeIfPresent(User.self, forKey: .user)
        }
    }

    /// The session as the document means it: its keys converted once, its dates without fractions.
    struct DocumentedSession: Decodable {
        let accessToken: String
        let refreshToken: String
        let expiresIn: Int
        let expiresAt: Date
        let tokenType: String
    }

    struct DocumentedUser: Decodable {
        let id: String
        let email: String
        let phone: String?
        let emailConfirmedAt: Date?
        let phoneConfirmedAt: Date?
        let createdAt: Date
        let updatedAt: Date
        let metadata: [String: AnyValue]
    }

    struct Documented: Decodable {
        let user: DocumentedUser
        let session: DocumentedSession
    }

    private struct Response: Decodable {
        let user: User
        let session: Session?
    }

    /// A metadata value; `null` is none.
    enum AnyValue: Decodable, Equatable {
        case text(String), integer(Int), number(Double), boolean(Bool), array([AnyValue]), object([String: AnyValue])

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            // One after the other, as the published client tries them.
            if let value = try? container.decode(String.self) {
                self = .text(value)
            } else if let value = try? container.decode(Int.self) {
                self = .integer(value)
            } else if let value = try? container.decode(Double.self) {
                self = .number(value)
            } else if let value = try? container.decode(Bool.self) {
                self = .boolean(value)
            } else if let value = try? container.decode([AnyValue].self) {
                self = .array(value)
            } else {
                self = .object(try container.decode([String: AnyValue].self))
            }
        }
    }

    private let baseURL: String
    var session: Session?
    private(set) var documented: Documented?

    init(_ baseURL: String) { self.baseURL = baseURL }

    func signUp(email: String, password: String, metadata: [String: Any]) async throws -> User {
        try await keep("POST", "/auth/signup", ["email": email, "password": password, "metadata": metadata])
    }

    func signIn(username: String, password: String) async throws -> User {
        try await keep("POST", "/auth/signin", ["username": username, "password": password])
    }

    func signIn(email: String, password: String) async throws -> User {
        try await keep("POST", "/auth/signin", ["email": email, "password": password])
    }

    func verifyOTP(email: String, token: String, type: String) async throws -> User {
        try await keep("POST", "/auth/otp/verify", ["email": email, "token": token, "type": type])
    }

    func resetPassword(token: String, newPassword: String) async throws -> User {
        try await keep("POST", "/auth/password/reset", ["token": token, "new_password": newPassword])
    }

    func updatePassword(_ newPassword: String) async throws -> User {
        try await keep("PUT", "/auth/password/update", ["new_password": newPassword], requiresAuth: true)
    }

    func resendOTP(email: String, type: String) async throws {
        _ = try await send("POST", "/auth/otp/resend", ["email": email, "type": type])
    }

    func forgotPassword(email: String) async throws { _ = try await send("POST", "/auth/password/forgot", ["email": email]) }

    func getCurrentUser() async throws -> User {
        try Self.converting.decode(User.self, from: try await send("GET", "/auth/user", nil, requiresAuth: true))
    }

    func refreshSession() async throws {
        guard let token = documented?.session.refreshToken, let user = documented?.user else { throw AppFault.notSignedIn }
        let data = try await send("POST", "/auth/token/refresh", ["refresh_token": token])
        documented = Documented(user: user, session: try Self.converting.decode(DocumentedSession.self, from: data))
        session = try Self.converting.decode(Session.self, from: data)
    }

    /// Signs out here whatever the server says.
    func signOut() async {
        _ = try? await send("POST", "/auth/signout", nil, requiresAuth: true)
        (session, documented) = (nil, nil)
    }

    private func keep(_ method: String, _ path: String, _ body: [String: Any], requiresAuth: Bool = false) async throws -> User {
        let data = try await send(method, path, body, requiresAuth: requiresAuth)
        let response = try Self.converting.decode(Response.self, from: data)
        documented = try Self.converting.decode(Documented.self, from: data)
        session = response.session
        return response.user
    }

    /// Anything but 2xx is a `serverError` with the message at the top level.
    private func send(_ method: String, _ path: String, _ body: [String: Any]?, requiresAuth: Bool = false) async throws -> Data {
        let request = try AppNetwork.request(method, baseURL + path, body, bearer: requiresAuth ? session?.accessToken : nil)
        let (data, response) = try await AppNetwork.data(for: request)
        guard (200...299).contains(response.statusCode) else {
            guard let members = try JSONSerialization.jsonObject(with: data) as? [String: String], let message = members["message"] else {
                throw AppFault.invalidResponse
            }
            throw response.statusCode == 401 ? AppFault.unauthorized(message) : AppFault.status(response.statusCode)
        }
        return data
    }

    private static var converting: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }
}
