internal import Accounts
internal import Contracts
internal import Credentials
internal import Settings
internal import Wire

/// A question of `tollgate init`, and the option with the same name. In the order in which they are asked.
enum SetupQuestion: String, CaseIterable, Sendable {
    case upstream, contract
    case appleClientIDs = "apple-client-ids"
    case googleClientIDs = "google-client-ids"
    case issuer, tenant, audience, redis
    case publicURL = "public-url"
    case tlsCertificate = "tls-cert"
    case tlsKey = "tls-key"
    case trustedProxies = "trusted-proxies"

    /// The answer to `contract` and `issuer` that stands for none of them.
    static let none = "none"

    /// The placeholder of the option's value.
    var placeholder: String {
        switch self {
        case .upstream, .redis, .publicURL: "URL"
        case .contract, .issuer: "NAME"
        case .appleClientIDs, .googleClientIDs: "IDS"
        case .tenant: "TENANT"
        case .audience: "AUDIENCE"
        case .tlsCertificate, .tlsKey: "FILE"
        case .trustedProxies: "NETWORKS"
        }
    }

    /// The option's line in the help.
    var doc: String {
        switch self {
        case .upstream: "the base URL of your API, like http://127.0.0.1:9001; needed unless a terminal is asked"
        case .contract: "the sign-in API that the gateway serves: \(alternatives(Self.contracts)); none by default"
        case .appleClientIDs:
            "for the contracts provider and apple: the apps that sign in with Apple, by their bundle ids, separated by commas; provider may have --google-client-ids instead"
        case .googleClientIDs: "for the contract provider: the apps that sign in with Google, by their client ids, separated by commas"
        case .issuer: "whose tokens it accepts beside its own: \(alternatives(Self.issuers)); none by default"
        case .tenant:
            "of that issuer: the domain (Auth0, Clerk), the user pool (Cognito), the project (Firebase, Supabase) or the realm's URL (Keycloak)"
        case .audience: "of that issuer: the API's identifier (Auth0), the app client (Cognito) or the aud (Keycloak)"
        case .redis: "the Redis in which several gateways share their limits, like redis://127.0.0.1:6379"
        case .publicURL: "the URL under which clients reach the gateway; for https without --tls-cert a load balancer in front ends TLS"
        case .tlsCertificate: "a PEM file with the certificate and its chain; the gateway then serves HTTPS on port 8443"
        case .tlsKey: "the PEM file of its key"
        case .trustedProxies: "the networks of those load balancers, like \"10.0.0.0/8\"; without them one on this machine"
        }
    }

    static var contracts: [String] { ContractID.allCases.map(\.name) + [none] }
    static var issuers: [String] { OutsideIssuer.Kind.allCases.map(\.rawValue) + [none] }

    /// Whether it is asked after these answers.
    func applies(to answers: SetupAnswers) -> Bool {
        switch self {
        case .upstream, .contract, .issuer, .redis, .publicURL: true
        case .appleClientIDs: answers.providers.contains(.apple)
        case .googleClientIDs: answers.providers.contains(.google)
        case .tenant: answers.issuerKind != nil
        case .audience: answers.issuerKind?.asksForAudience == true
        case .tlsCertificate: answers.publicURL.hasPrefix("https://")
        case .tlsKey: !answers[.tlsCertificate].isEmpty
        case .trustedProxies: answers[.tlsCertificate].isEmpty && (answers.publicURL.hasPrefix("https://") || answers.has(.trustedProxies))
        }
    }

    /// Why its option does not fit the other answers: the rest of a sentence that begins with the option.
    func misfit(_ answers: SetupAnswers) -> String {
        switch self {
        case .appleClientIDs: "needs --contract provider or --contract apple beside it"
        case .googleClientIDs: "needs --contract provider beside it"
        case .audience where answers.issuerKind != nil: "does not go with --issuer \(answers[.issuer]), whose aud follows from --tenant"
        case .tenant, .audience: "needs --issuer beside it"
        case .tlsCertificate: "needs an https URL as --public-url"
        case .tlsKey: "needs --tls-cert beside it"
        case .trustedProxies: "does not go with --tls-cert, by which TLS ends here"
        case .upstream, .contract, .issuer, .redis, .publicURL: "cannot be given"
        }
    }

    /// The line in front of the cursor, without the default.
    func prompt(after answers: SetupAnswers) -> String {
        switch self {
        case .upstream: "1/5 The URL of your API"
        case .contract: "2/5 The sign-in API to serve (\(Self.contracts.joined(separator: ", ")))"
        case .appleClientIDs:
            "    The bundle ids of your apps with Sign in with Apple, separated by commas"
                + (answers.providers.count > 1 ? " (empty: none)" : "")
        case .googleClientIDs: "    The client ids of your apps with Sign in with Google, separated by commas (empty: none)"
        case .issuer: "3/5 An outside issuer to trust (\(Self.issuers.joined(separator: ", ")))"
        case .tenant: "    \(answers.issuerKind?.tenantQuestion ?? "")"
        case .audience: "    \(answers.issuerKind?.audienceQuestion ?? "")"
        case .redis: "4/5 The URL of a Redis for the limits of several gateways (empty: this gateway counts alone)"
        case .publicURL: "5/5 The URL under which clients reach the gateway (https:// if TLS ends here or at a load balancer in front)"
        case .tlsCertificate: "    The PEM file of its TLS certificate with its chain (empty: TLS ends at a load balancer in front)"
        case .tlsKey: "    The PEM file of its key"
        case .trustedProxies: "    The networks of the load balancers, separated by spaces"
        }
    }

    /// The answer that an empty line stands for.
    func usual(after answers: SetupAnswers) -> String {
        switch self {
        case .upstream: "http://127.0.0.1:9001"
        case .contract, .issuer: Self.none
        case .audience: answers.issuerKind == .keycloak ? "account" : ""
        case .publicURL: answers[.tlsCertificate].isEmpty ? "http://localhost:8000" : "https://localhost:8443"
        case .trustedProxies: "127.0.0.1 ::1"
        case .appleClientIDs, .googleClientIDs, .tenant, .redis, .tlsCertificate, .tlsKey: ""
        }
    }

    /// Whether `--NAME` has to be given where it applies.
    func isNeeded(in answers: SetupAnswers) -> Bool {
        switch self {
        case .upstream: true
        case .appleClientIDs: answers.lacksClientIDs
        case .tenant, .audience, .tlsKey: answers[self].isEmpty
        case .contract, .googleClientIDs, .issuer, .redis, .publicURL, .tlsCertificate, .trustedProxies: false
        }
    }

    /// The question to ask again after a wrong answer: a key that does not match may be the certificate's fault.
    var retry: SetupQuestion {
        switch self {
        case .tlsKey: .tlsCertificate
        case .googleClientIDs: .appleClientIDs
        default: self
        }
    }

    /// The settings that an answer decides, by the names of their variables.
    func settings(_ answers: SetupAnswers) -> [String] {
        switch self {
        case .upstream: ["TOLLGATE_UPSTREAM_API"]
        case .contract: [Setting.contracts.name]
        case .appleClientIDs: [SetupFile.providerName(.apple)]
        case .googleClientIDs: [SetupFile.providerName(.google)]
        case .issuer: []
        case .tenant: answers[.audience].isEmpty ? [] : [SetupFile.trustName(answers)]
        case .audience: [SetupFile.trustName(answers), "TOLLGATE_ROUTE_API"]
        case .redis: [Setting.redisURL.name]
        case .publicURL: [Setting.plain(\.publicURL).name]
        case .tlsCertificate: []
        case .tlsKey: [Setting.tlsCert.name, Setting.tlsKey.name]
        case .trustedProxies: [Setting.trustedProxies.name]
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

    /// nil for none, and for a word that is no contract.
    var contractID: ContractID? { ContractID.allCases.first { $0.name == self[.contract] } }

    /// The providers whose apps the contract signs in.
    var providers: [Provider] { contractID.map(Catalogue.providers(of:)) ?? [] }

    /// Whether the contract takes ID tokens and no app of theirs is named.
    var lacksClientIDs: Bool { !providers.isEmpty && self[.appleClientIDs].isEmpty && self[.googleClientIDs].isEmpty }

    /// The client ids of the apps that sign in with a provider.
    subscript(provider: Provider) -> String {
        self[provider == .apple ? .appleClientIDs : .googleClientIDs]
    }

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
