import Foundation

/// A gateway with accounts, as apps ask it.
extension Gateway {
    /// All five contracts, where the shipped files mount them.
    static let contracts =
        "TOLLGATE_CONTRACTS=\"password@/api/v1 provider@/whateat/api/v1 apple@/ dlauth@/ anonymous@/\""

    /// Whom `from:` may name as a client: this machine stands for a proxy.
    static let trustingProxies = "TOLLGATE_TRUSTED_PROXIES=127.0.0.0/8"

    /// Sends `json`, if there is some, over a connection of its own.
    func send(_ methodAndTarget: String, _ json: String? = nil, bearer: String? = nil, from address: String? = nil) throws -> Message {
        try connect().send(methodAndTarget, json, bearer: bearer, from: address)
    }

    /// The messages that nothing was set up to send, the newest last: as `tollgate outbox --json` prints them, read where it
    /// reads them.
    func outbox() throws -> [JSON] {
        guard let lines = try? folder.read("data/outbox.jsonl") else { return [] }
        return try lines.split(separator: "\n").map { try JSON(String($0)) }
    }

    /// Waits for the newest message to `recipient` after the first `count`.
    func message(to recipient: String, after count: Int = 0) throws -> JSON {
        var found: JSON?
        try eventually("a message to \(recipient)") {
            let messages = try outbox().filter { $0["to"].text == recipient }
            found = messages.count > count ? messages.last : nil
            return found != nil
        }
        guard let found else { throw Fault("no message to \(recipient)") }
        return found
    }

    /// Opens an account under the `password` contract.
    func register(_ email: String, from address: String? = nil) throws -> PasswordTokens {
        let answer = try send("POST /api/v1/auth/register", credentials(email), from: address)
        guard answer.status == 201 else { throw Fault("\(email) is not registered: \(answer.text)") }
        let body = try JSON(answer.text)
        return PasswordTokens(
            user: try must(body["user"]["id"]), access: try must(body["tokens"]["access"]), refresh: try must(body["tokens"]["refresh"]))
    }

    /// Opens an account under the `dlauth` contract.
    func signUp(_ email: String, from address: String? = nil) throws -> RotatedTokens {
        let answer = try send("POST /auth/signup", credentials(email), from: address)
        guard answer.status == 200 else { throw Fault("\(email) is not signed up: \(answer.text)") }
        let session = try JSON(answer.text)["session"]
        return RotatedTokens(access: try must(session["access_token"]), refresh: try must(session["refresh_token"]))
    }

    /// A refresh under the `dlauth` contract that must succeed.
    func refreshed(_ token: String) throws -> RotatedTokens {
        let answer = try send("POST /auth/token/refresh", #"{"refresh_token":"\#(token)"}"#)
        guard answer.status == 200 else { throw Fault("not refreshed: \(answer) \(answer.text)") }
        let session = try JSON(answer.text)
        return RotatedTokens(access: try must(session["access_token"]), refresh: try must(session["refresh_token"]))
    }
}

extension Connection {
    /// Sends `json`, if there is some, and reads the answer.
    func send(_ methodAndTarget: String, _ json: String? = nil, bearer: String? = nil, from address: String? = nil) throws -> Message {
        var fields = json == nil ? [] : ["Content-Type: application/json"]
        if let bearer { fields.append("Authorization: Bearer \(bearer)") }
        if let address { fields.append("X-Forwarded-For: \(address)") }
        return try ask(methodAndTarget, fields, body: json.map { Array($0.utf8) })
    }
}

struct PasswordTokens: Sendable { let user, access, refresh: String }
struct RotatedTokens: Sendable { let access, refresh: String }

/// A password that every contract takes.
let goodPassword = "correct horse battery"

/// The body with which most contracts register and sign in.
func credentials(_ email: String, _ password: String = goodPassword) -> String {
    #"{"email":\#(quotedJSON(email)),"password":\#(quotedJSON(password))}"#
}

/// The text that a member must be.
func must(_ member: JSON) throws -> String {
    guard let text = member.text else { throw Fault("\(member) is no text") }
    return text
}

/// What a token says, whoever signed it.
func claims(of token: String) throws -> JSON {
    let parts = token.split(separator: ".")
    guard parts.count == 3, let claims = bytes(base64URL: String(parts[1])) else { throw Fault("\(token) is no JWT") }
    return try JSON(text(of: claims))
}

func bytes(base64URL encoded: String) -> [UInt8]? {
    var plain = encoded.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    plain += String(repeating: "=", count: (4 - plain.count % 4) % 4)
    return Data(base64Encoded: plain).map { Array($0) }
}

/// Runs `body` so many times at once, each on a thread of its own.
func atOnce<Value: Sendable>(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Value) throws -> [Value] {
    try (0..<count).map { number in Background { try body(number) } }.map { try $0.value(seconds: 60) }
}

/// Sends `json`, and comes back as asked for while a busy gateway has no room for it.
func askingAgain(whileFull methodAndTarget: String, _ json: String, port: Int) throws -> Message {
    var answer = try Connection(port: port).send(methodAndTarget, json)
    for _ in 0..<30 where answer.status == 503 {
        sleep(UInt32(answer["Retry-After"] ?? "") ?? 1)
        answer = try Connection(port: port).send(methodAndTarget, json)
    }
    return answer
}
