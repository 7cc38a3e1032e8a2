internal import Accounts
internal import HTTP
internal import Wire

/// An error response of the admin API.
package struct AdminRefusal: Error {
    let status: UInt16
    let code: String
    let message: String
    var fields: [(name: String, value: String)] = []

    package init(_ status: UInt16, _ code: String, _ message: String, _ fields: [(String, String)] = []) {
        self.status = status
        self.code = code
        self.message = message
        self.fields = fields.map { (name: $0.0, value: $0.1) }
    }

    static func unauthorized(_ message: String) -> AdminRefusal {
        AdminRefusal(401, "UNAUTHORIZED", message, [("WWW-Authenticate", "Bearer realm=\"tollgate-admin\"")])
    }

    init(_ refusal: OperatorRefusal) {
        switch refusal {
        case .malformedName(_, let fault): self.init(400, "BAD_REQUEST", fault.message)
        case .tier(let fault): self.init(400, "BAD_REQUEST", fault.message(end: "until"))
        case .malformedReason: self.init(400, "BAD_REQUEST", "reason has more than 200 bytes or a control character")
        case .attributes(let fault): self.init(400, "BAD_REQUEST", fault.attributesMessage)
        case .unknownName: self.init(404, "NOT_FOUND", "There is no user with this id or email")
        case .unknownSubject(let subject): self.init(404, "NOT_FOUND", "There is no account of \(subject.text)")
        case .apiKey(.tooMany): self.init(409, "CONFLICT", APIKeyChoice.Fault.tooMany.message())
        case .apiKey(let fault): self.init(400, "BAD_REQUEST", fault.message())
        case .unknownAPIKey: self.init(404, "NOT_FOUND", "There is no API key with this id")
        case .unknownSession: self.init(404, "NOT_FOUND", "There is no session with this id")
        case .noPasskey: self.init(404, "NOT_FOUND", "The account has no passkey of this id")
        case .notMerged: self.init(404, "NOT_FOUND", "No account of this id was merged into the user")
        case .unknownEvent: self.init(404, "NOT_FOUND", "There is no event with this id")
        case .unknownSubscriber: self.init(404, "NOT_FOUND", "Events were never sent to a subscriber of this name")
        case .notGranted: self.init(404, "NOT_FOUND", "There is no such grant")
        case .ownTier:
            self.init(404, "NOT_FOUND", "Only the tiers of outside issuers' users are cached: name one as NAME:SUBJECT")
        }
    }

    init(_ error: AccountError<AdministrationRefusal>) {
        switch error {
        case .refused(.noSuchAccount): self.init(404, "NOT_FOUND", "There is no user with this id")
        case .failed(let failure): self.init(failure)
        }
    }

    init(_ failure: AccountFailure) {
        switch failure {
        case .overloaded(let seconds), .unavailable(let seconds):
            self.init(503, "UNAVAILABLE", "The accounts do not answer now", [("Retry-After", "\(seconds)")])
        case .banned(let ban):
            let end = ban.until.map { "until \(ISO8601.text($0))" } ?? "for good"
            self.init(409, "ACCOUNT_BANNED", "The account is banned \(end), lift the ban first")
        case .broken, .tooManyAttempts, .rejected: self.init(500, "INTERNAL_ERROR", "The accounts failed")
        }
    }

    func response(_ requestID: String) -> LocalResponse {
        var response = LocalResponse.json(Int(status)) { json in
            json.beginObject()
            json.key("error")
            json.beginObject()
            json.field("code", code)
            json.field("message", message)
            json.endObject()
            json.endObject()
        }
        response.fields += fields
        return response
    }
}
