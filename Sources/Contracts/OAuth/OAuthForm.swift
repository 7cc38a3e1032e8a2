import Gate
import HTTP
import Wire

/// The parameters of a request at an endpoint of OAuth 2.0, as a form in the body (RFC 6749 §4.1.3, Appendix B). Parameters in the
/// URL do not count: they would be logged.
struct OAuthForm {
    static let dialect = Dialect.oauth

    private let values: [String: String]

    /// Throws for another type of content, and for a form that is malformed or names a parameter twice.
    init(_ request: LocalRequest) throws(Failure) {
        if let type = request.value(of: "content-type"), !Self.isForm(type) {
            throw Self.fault("The content must be application/x-www-form-urlencoded.")
        }
        var values: [String: String] = [:]
        guard let pairs = FormText.pairs(request.body) else { throw Self.fault("The form is malformed.") }
        for (name, value) in pairs {
            guard values.updateValue(value, forKey: name) == nil else { throw Self.fault("A parameter is repeated.") }
        }
        self.values = values
    }

    /// A parameter that must be there; one without a value counts as left out (RFC 6749 §3.2).
    func required(_ name: String) throws(Failure) -> String {
        guard let value = values[name], !value.isEmpty else { throw Self.fault("The parameter \(name) is missing.") }
        return value
    }

    static func fault(_ message: String) -> Failure { Failure(400, "invalid_request", message) }

    private static func isForm(_ type: String) -> Bool {
        // Most clients add nothing to it.
        if type.withRawBytes({ $0.equalsIgnoringCase("application/x-www-form-urlencoded") }) { return true }
        let media = type.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }
        return media.lowercased() == "application/x-www-form-urlencoded"
    }
}
