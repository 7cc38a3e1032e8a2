import Gate
internal import HTTP
internal import Wire

/// That a request gets no success, and what its client is told, before the contract's envelope is around it.
struct Failure: Error, Equatable, Sendable {
    var status: UInt16
    var code: String
    /// For people.
    var message: String
    /// Until it is worth trying again.
    var retryAfterSeconds: Int?

    init(_ status: UInt16, _ code: String, _ message: String, retryAfterSeconds: Int? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// What the gate would say for the same reason.
    init(_ refusal: Refusal, in dialect: Dialect) {
        self.init(
            refusal.status, dialect.code(of: refusal).description, dialect.sentence(for: refusal).description,
            retryAfterSeconds: refusal.retryAfterSeconds.map(Int.init))
    }

    /// A body, or a member of it, that is not what it must be.
    static func malformed(_ message: String, in dialect: Dialect) -> Failure {
        var failure = Failure(.badRequest(.http(.truncated)), in: dialect)
        failure.message = message
        return failure
    }

    /// Too many attempts.
    static func rateLimited(_ seconds: Int, in dialect: Dialect) -> Failure {
        Failure(.rateLimited(retryAfterSeconds: UInt32(clamping: seconds)), in: dialect)
    }

    /// What we need for the answer is busy or away.
    static func away(_ seconds: Int, in dialect: Dialect) -> Failure {
        Failure(.unavailable(.overload, retryAfterSeconds: UInt32(clamping: seconds)), in: dialect)
    }

    func response(in dialect: Dialect, requestID: String) -> LocalResponse {
        var body = ByteBuffer()
        let (code, message, id) = (Array(code.utf8), Array(message.utf8), Array(requestID.utf8))
        dialect.writeBody(
            status: status, code: code.rawBytes, message: message.rawBytes, requestID: id.rawBytes, upgradeURL: nil,
            into: &body)
        var fields: [(name: String, value: String)] = []
        // A 401 always says how one would sign in (RFC 9110 §15.5.2).
        if status == 401 { fields.append((name: "WWW-Authenticate", value: "Bearer realm=\"tollgate\"")) }
        if let retryAfterSeconds { fields.append((name: "Retry-After", value: String(max(1, retryAfterSeconds)))) }
        return LocalResponse(
            status: Int(status), contentType: dialect.contentType.description, body: body.readable.array, fields: fields)
    }
}
