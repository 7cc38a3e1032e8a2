import Foundation

/// An auth server of somebody else's, at which tokens are refreshed. Each refresh token is good once, and it counts.
final class AuthServer: Sendable {
    /// What it does with a refresh.
    enum Mood: Sendable {
        case well
        /// Answers with these bytes.
        case saying(String)
        /// Answers with this status and an error.
        case refusing(Int)
        /// Takes the question and never answers.
        case late
        /// Ends the connection in place of an answer.
        case broken
        /// Answers with tokens of another user.
        case confused
        /// Answers well after so many seconds.
        case slow(Double)
    }

    static let secret = "the secret of an auth server elsewhere"
    static let issuer = "https://login.test"

    let mood: Watched<Mood>
    /// The bodies of all questions.
    let questions: Watched<[String]>
    /// The refresh tokens that are good, and whose they are.
    private let current: Watched<[String: String]>
    private let server: Upstream
    private let form: Form

    /// How it speaks: the names of a contract.
    struct Form: Sendable {
        let contract: String
        let refresh: String
        let access: String
        let rotates: Bool

        static let all = [
            Form(contract: "password", refresh: "refresh", access: "access", rotates: false),
            Form(contract: "provider", refresh: "refreshToken", access: "accessToken", rotates: true),
            Form(contract: "dlauth", refresh: "refresh_token", access: "access_token", rotates: true),
            Form(contract: "anonymous", refresh: "refreshToken", access: "sessionToken", rotates: true),
        ]
    }

    init(_ form: Form = .all[1]) throws {
        let (mood, questions, current) = (Watched(Mood.well), Watched<[String]>([]), Watched<[String: String]>([:]))
        (self.mood, self.questions, self.current, self.form) = (mood, questions, current, form)
        server = try Upstream { request, connection in
            // Who sees the question may change the mood for the next one.
            let present = mood.now
            questions.change { $0.append(request.text) }
            switch present {
            case .well: try connection.send(try Self.answer(request, form, current))
            case .slow(let seconds):
                let answer = try Self.answer(request, form, current)
                Thread.sleep(forTimeInterval: seconds)
                try connection.send(answer)
            case .saying(let bytes): try connection.send(bytes)
            case .refusing(let status): try connection.send(Self.message(status, #"{"error":{"code":"X","message":"no"}}"#))
            case .late: Thread.sleep(forTimeInterval: 30)
            case .broken: connection.reset()
            case .confused: try connection.send(Self.message(200, try Self.tokens(form, user: "mallory", refresh: "x")))
            }
        }
    }

    /// As the value of a trust line.
    var trust: String {
        "issuer=\(Self.issuer) audience=any secret-file=SECRET algorithms=HS256 refresh=\(server.url)/refresh refresh-contract=\(form.contract)"
    }

    /// The settings of a gateway that trusts it.
    func settings(_ folder: Folder) throws -> String {
        try folder.write("auth-server", Self.secret)
        return "TOLLGATE_TRUST_LOGIN=\"\(trust.replacingOccurrences(of: "SECRET", with: folder.file("auth-server")))\""
    }

    /// A refresh token of `user`'s that is good.
    func signIn(_ user: String) -> String {
        let token = "\(user)-\(UUID().uuidString)"
        current.change { $0[token] = user }
        return token
    }

    static func token(_ user: String, lifetime: Int) throws -> String {
        let claims =
            #"{"iss":"\#(issuer)","sub":"\#(user)","sid":"s-\#(user)","iat":\#(unixNow),"exp":\#(unixNow + lifetime),"jti":"\#(UUID().uuidString)"}"#
        return try IssuerKey(.hs256(secret: secret)).token(claims)
    }

    private static func answer(_ request: Message, _ form: Form, _ current: Watched<[String: String]>) throws -> String {
        let sent = try must(JSON(request.text)[form.refresh])
        guard let user = current.now[sent] else { return message(401, #"{"error":{"code":"SPENT","message":"spent"}}"#) }
        let next = form.rotates ? "\(user)-\(UUID().uuidString)" : sent
        current.change {
            $0[sent] = nil
            $0[next] = user
        }
        return message(200, try tokens(form, user: user, refresh: form.rotates ? next : nil))
    }

    private static func tokens(_ form: Form, user: String, refresh: String?) throws -> String {
        let rest = refresh.map { #","\#(form.refresh)":"\#($0)""# } ?? ""
        return #"{"\#(form.access)":"\#(try token(user, lifetime: 600))"\#(rest),"user":{"id":"\#(user)"}}"#
    }

    static func message(_ status: Int, _ body: String) -> String {
        "HTTP/1.1 \(status) X\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }
}
