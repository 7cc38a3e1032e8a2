internal import Accounts
internal import Settings
internal import Wire

/// A question of `tollgate init`, and the option with the same name. In the order in which they are asked.
enum SetupQuestion: String, CaseIterable, Sendable {
    case upstream, contract, issuer, tenant, audience, redis
    case tlsCertificate = "tls-cert"
    case tlsKey = "tls-key"
    case publicURL = "public-url"

    /// The answer to `contract` and `issuer` that stands for none of them.
    static let none = "none"

    /// The placeholder of the option's value.
    var placeholder: String {
        switch self {
        case .upstream, .redis, .publicURL: "URL"
        case .contract, .issuer: "NAME"
        case .tenant: "TENANT"
        case .audience: "AUDIENCE"
        case .tlsCertificate, .tlsKey: "FILE"
        }
    }

    /// The option's line in the help.
    var doc: String {
        switch self {
        case .upstream: "the base URL of your API, like http://127.0.0.1:9001; needed unless a terminal is asked"
        case .contract: "the sign-in API that the gateway serves: \(alternatives(Self.contracts)); none by default"
        case .issuer: "whose tokens it accepts beside its own: \(alternatives(Self.issuers)); none by default"
        case .tenant: "of that issuer: the domain (Auth0, Clerk), the user pool (Cognito), the project (Firebase, Supabase) or the realm's URL (Keycloak)"
        case .audience: "of that issuer: the API's identifier (Auth0), the app client (Cognito) or the aud (Keycloak)"
        case .redis: "the Redis in which several gateways share their limits, like redis://127.0.0.1:6379"
        case .tlsCertificate: "a PEM file with the certificate and its chain; the gateway then serves HTTPS on port 8443"
        case .tlsKey: "the PEM file of its key"
        case .publicURL: "the URL under which clients reach the gateway"
        }
    }

    static var contracts: [String] { ContractID.allCases.map(\.name) + [none] }
    static var issuers: [String] { OutsideIssuer.Kind.allCases.map(\.rawValue) + [none] }

    /// Whether it is asked after these answers.
    func applies(to answers: SetupAnswers) -> Bool {
        switch self {
        case .upstream, .contract, .issuer, .redis, .tlsCertificate: true
        case .tenant: answers.issuerKind != nil
        case .audience: answers.issuerKind?.asksForAudience == true
        case .tlsKey, .publicURL: !answers[.tlsCertificate].isEmpty
        }
    }

    /// The line in front of the cursor, without the default.
    func prompt(after answers: SetupAnswers) -> String {
        switch self {
        case .upstream: "1/5 The URL of your API"
        case .contract: "2/5 The sign-in API to serve (\(Self.contracts.joined(separator: ", ")))"
        case .issuer: "3/5 An outside issuer to trust (\(Self.issuers.joined(separator: ", ")))"
        case .tenant: "    \(answers.issuerKind?.tenantQuestion ?? "")"
        case .audience: "    \(answers.issuerKind?.audienceQuestion ?? "")"
        case .redis: "4/5 The URL of a Redis for the limits of several gateways (empty: this gateway counts alone)"
        case .tlsCertificate: "5/5 The PEM file of a TLS certificate with its chain (empty: plain HTTP on this machine)"
        case .tlsKey: "    The PEM file of its key"
        case .publicURL: "    The URL under which clients reach the gateway"
        }
    }

    /// The answer that an empty line stands for.
    func usual(after answers: SetupAnswers) -> String {
        switch self {
        case .upstream: "http://127.0.0.1:9001"
        case .contract, .issuer: Self.none
        case .audience: answers.issuerKind == .keycloak ? "account" : ""
        case .publicURL: answers[.tlsCertificate].isEmpty ? "http://localhost:8000" : "https://localhost:8443"
        case .tenant, .redis, .tlsCertificate, .tlsKey: ""
        }
    }

    /// The question to ask again after a wrong answer: a key that does not match may be the certificate's fault.
    var retry: SetupQuestion { self == .tlsKey ? .tlsCertificate : self }

    /// The settings that an answer decides, by the names of their variables.
    func settings(_ answers: SetupAnswers) -> [String] {
        switch self {
        case .upstream: ["TOLLGATE_UPSTREAM_API"]
        case .contract: [Setting.contracts.name]
        case .issuer: []
        case .tenant: answers[.audience].isEmpty ? [] : [SetupFile.trustName(answers)]
        case .audience: [SetupFile.trustName(answers), "TOLLGATE_ROUTE_API"]
        case .redis: [Setting.redisURL.name]
        case .tlsCertificate: []
        case .tlsKey: [Setting.tlsCert.name, Setting.tlsKey.name]
        case .publicURL: [Setting.publicURL.name]
        }
    }
}

/// The answers so far.
struct SetupAnswers: Equatable, Sendable {
    private var texts: [SetupQuestion: String] = [:]

    /// The answer, else an empty text.
    subscript(question: SetupQuestion) -> String {
        get { texts[question] ?? "" }
        set { texts[question] = newValue }
    }

    func has(_ question: SetupQuestion) -> Bool { texts[question] != nil }
    mutating func forget(_ question: SetupQuestion) { texts[question] = nil }

    /// The answer, else the listener's own URL.
    var publicURL: String { self[.publicURL].isEmpty ? SetupQuestion.publicURL.usual(after: self) : self[.publicURL] }

    /// nil for none, and for a word that is no issuer.
    var issuerKind: OutsideIssuer.Kind? { OutsideIssuer.Kind(rawValue: self[.issuer]) }

    /// nil without an outside issuer.
    func outsideIssuer() throws(ParseError) -> OutsideIssuer? {
        guard let issuerKind else { return nil }
        return try OutsideIssuer(issuerKind, tenant: self[.tenant], audience: self[.audience])
    }

    /// With the default of every question that was not answered.
    var completed: SetupAnswers {
        var answers = self
        for question in SetupQuestion.allCases where !answers.has(question) && question.applies(to: answers) {
            answers[question] = question.usual(after: answers)
        }
        return answers
    }
}
