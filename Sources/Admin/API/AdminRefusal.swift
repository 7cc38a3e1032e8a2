internal import Accounts
internal import HTTP
internal import Wire

/// An error response of the admin API.
struct AdminRefusal: Error {
    let status: UInt16
    let code: String
    let message: String
    var fields: [(name: String, value: String)] = []

    init(_ status: UInt16, _ code: String, _ message: String, _ fields: [(String, String)] = []) {
        self.status = status
        self.code = code
        self.message = message
        self.fields = fields.map { (name: $0.0, value: $0.1) }
    }

    static func unauthorized(_ message: String) -> AdminRefusal {
        AdminRefusal(401, "UNAUTHORIZED", message, [("WWW-Authenticate", "Bearer realm=\"tollgate-admin\"")])
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
        case .broken, .tooManyAttempts: self.init(500, "INTERNAL_ERROR", "The accounts failed")
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
