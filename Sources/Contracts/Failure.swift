import Accounts
internal import Credentials
import Gate
internal import HTTP
internal import Wire

/// An error response, without the envelope of the dialect.
struct Failure: Error, Equatable, Sendable {
    var status: UInt16
    var code: String
    /// For people, in the words of the contract.
    var message: String
    /// `Retry-After`, in seconds.
    var retryAfterSeconds: Int?
    /// Members beside the code.
    var extras: [Envelope.Extra] = []
    /// The reason of a 401 or 403 in `WWW-Authenticate` (RFC 6750, 3; RFC 9470, 3).
    var challenge: Challenge?
    /// `DPoP-Nonce`.
    var nonce: String?

    struct Challenge: Equatable, Sendable {
        let error: String
        let description: String
        /// How old the sign-in or the proof of a factor may be, in seconds.
        var maxAge: Int?
        /// Whether a second factor is demanded (RFC 9470 §3).
        var demandsFactor = false
        /// Whether it asks for a proof of a key (RFC 9449, 7.1).
        var isOfProof = false
    }

    init(_ status: UInt16, _ code: String, _ message: String, retryAfterSeconds: Int? = nil) {
        self.status = status
        self.code = code
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// The response of the gate to the same refusal.
    init(_ refusal: Refusal, in dialect: Dialect) {
        self.init(
            refusal.status, Catalogue.envelopes[dialect].code(of: refusal).description,
            Catalogue.envelopes[dialect].sentence(for: refusal).description,
            retryAfterSeconds: refusal.retryAfterSeconds.map(Int.init))
    }

    static func badRequest(_ message: String) -> Failure { Failure(400, RefusalCode.badRequest.text.description, message) }

    /// 400 for a malformed body or member.
    static func malformed(_ message: String, in dialect: Dialect) -> Failure {
        var failure = Failure(.badRequest(.http(.truncated)), in: dialect)
        failure.message = message
        return failure
    }

    /// 409 for the removal of the last way to sign in.
    static let lastIdentity = Failure(
        409, "LAST_IDENTITY", "Nothing else is left to sign in with. Add an email, a password, a provider or a passkey first.")

    /// 400 for a provider that the contract knows and the operator has not set up.
    static func isOff(_ provider: Provider) -> Failure {
        let names = [Provider.apple: "Apple", .google: "Google"]
        return Failure(400, "INVALID_PROVIDER", "Sign in with \(names[provider] ?? provider.rawValue) is not set up here")
    }

    /// 429, 503 or 500 for an account call that failed.
    init(_ failure: AccountFailure, in dialect: Dialect) {
        switch failure {
        case .tooManyAttempts(let seconds): self.init(.rateLimited(retryAfterSeconds: UInt32(clamping: seconds)), in: dialect)
        case .overloaded(let seconds), .unavailable(let seconds):
            self.init(.unavailable(.overload, retryAfterSeconds: UInt32(clamping: seconds)), in: dialect)
        case .broken: self.init(.internalError, in: dialect)
        case .rejected(let sentence): self.init(403, "SIGNUP_REJECTED", sentence)
        case .banned(let ban):
            self.init(
                403, "ACCOUNT_BANNED",
                ban.until.map { "The account is banned until \(ISO8601.text($0))." } ?? "The account is banned for good.")
            extras = ban.until.map { [Envelope.Extra(name: "until", value: ISO8601.text($0))] } ?? []
        }
    }

    /// 401 for a sign-in that is too old (RFC 9470), or a session that has ended.
    init(_ refusal: RecencyRefusal, in dialect: Dialect) {
        switch refusal {
        case .sessionEnded: self.init(.unauthorized(.revoked), in: dialect)
        case .notRecent(let seconds):
            self.init(.unauthorized(.signInTooOld(maxAge: UInt32(clamping: seconds))), in: dialect)
            challenge = Challenge(
                error: "insufficient_user_authentication", description: "A more recent sign-in is required", maxAge: Int(seconds))
        case .noFactor(let seconds):
            self.init(.unauthorized(.noFactor(maxAge: UInt32(clamping: seconds))), in: dialect)
            challenge = Challenge(
                error: "insufficient_user_authentication", description: "A second factor is required", maxAge: Int(seconds),
                demandsFactor: true)
        }
    }

    /// The answer in a dialect, which spells the code; for own endpoints that of the bearer's contract.
    func response(in dialect: Dialect, requestID: String) -> LocalResponse {
        let envelope = Catalogue.envelopes[dialect]
        var body = ByteBuffer()
        let (code, message, id) = (Array(envelope.code(code, status: status).utf8), Array(message.utf8), Array(requestID.utf8))
        envelope.writeBody(
            status: status, code: code.rawBytes, message: message.rawBytes, requestID: id.rawBytes, extras: extras, into: &body)
        var fields: [(name: String, value: String)] = []
        // A 401 must have a challenge (RFC 9110 §15.5.2).
        if status == 401 || challenge != nil { fields.append((name: "WWW-Authenticate", value: challengeText)) }
        if let retryAfterSeconds { fields.append((name: "Retry-After", value: String(max(1, retryAfterSeconds)))) }
        if let nonce { fields.append((name: "DPoP-Nonce", value: nonce)) }
        return LocalResponse(
            status: Int(status), contentType: envelope.contentType.description, body: body.readable.array, fields: fields)
    }

    private var challengeText: String {
        var text = "\(challenge?.isOfProof == true ? "DPoP" : "Bearer") realm=\"tollgate\""
        if let challenge {
            let (error, description) = (Policy.quoted(challenge.error).rawBytes.text, Policy.quoted(challenge.description).rawBytes.text)
            text += ", error=\"\(error)\", error_description=\"\(description)\""
            if challenge.demandsFactor { text += ", acr_values=\"\(Refusal.factorClass)\"" }
            if let maxAge = challenge.maxAge { text += ", max_age=\"\(maxAge)\"" }
            if challenge.isOfProof { text += ", algs=\"\(DeviceProof.algorithmNames)\"" }
        }
        return text
    }
}
