internal import Settings
internal import Wire

/// An outside issuer that `tollgate init` knows, with the facts of a trust line for its access tokens.
struct OutsideIssuer: Sendable {
    enum Kind: String, CaseIterable, Sendable { case auth0, cognito, firebase, supabase, clerk, keycloak }

    let kind: Kind
    /// The exact `iss`.
    let issuer: String
    let jwks: String
    /// The accepted `aud`, or `any`.
    let audience: String
    let algorithms: String
    /// A claim that every token must have, for issuers whose access tokens have no `aud` of the app.
    var claim: (name: String, value: String)?

    /// `tenant` and `audience` are the answers to the questions of `kind`; the error says which of them is wrong.
    init(_ kind: Kind, tenant: String, audience answered: String) throws(ParseError) {
        self.kind = kind
        switch kind {
        case .auth0:
            let domain = try Self.domain(tenant, example: "example.eu.auth0.com")
            (issuer, jwks) = ("https://\(domain)/", "https://\(domain)/.well-known/jwks.json")
            (audience, algorithms) = (answered, "RS256")
        case .cognito:
            let region = try Self.region(ofPool: tenant)
            // The partition of China has a domain of its own.
            let suffix = region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
            issuer = "https://cognito-idp.\(region).\(suffix)/\(tenant)"
            (jwks, audience, algorithms) = (issuer + "/.well-known/jwks.json", "any", "RS256")
            claim = ("client_id", answered)
        case .firebase:
            try Self.check(tenant, "is no id of a Firebase project, write one like my-app-1a2b3") {
                $0.isLowercase || $0.isNumber || $0 == "-"
            }
            issuer = "https://securetoken.google.com/\(tenant)"
            jwks = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"
            (audience, algorithms) = (tenant, "RS256")
        case .supabase:
            let domain =
                tenant.contains(".") ? try Self.domain(tenant, example: "auth.example.org") : try Self.project(tenant) + ".supabase.co"
            issuer = "https://\(domain)/auth/v1"
            (jwks, audience, algorithms) = (issuer + "/.well-known/jwks.json", "authenticated", "ES256,RS256")
        case .clerk:
            issuer = "https://" + (try Self.domain(tenant, example: "example-1.clerk.accounts.dev"))
            (jwks, audience, algorithms) = (issuer + "/.well-known/jwks.json", "any", "RS256")
        case .keycloak:
            issuer = try Self.realm(tenant)
            (jwks, audience, algorithms) = (issuer + "/protocol/openid-connect/certs", answered, "RS256")
        }
        if kind.asksForAudience {
            try Self.check(answered, "is no audience, write it without spaces") {
                !$0.isWhitespace && $0.isASCII && $0 != "," && $0 != "\""
            }
        }
    }

    /// The value of `TOLLGATE_TRUST_<NAME>`.
    var trustLine: String { "issuer=\(issuer) audience=\(audience) jwks=\(jwks) algorithms=\(algorithms)" }

    // MARK: answers

    /// The host name in `text`, which may be written as a URL.
    private static func domain(_ text: String, example: String) throws(ParseError) -> String {
        var name = text[...]
        if name.hasPrefix("https://") { name = name.dropFirst(8) }
        if name.hasSuffix("/") { name = name.dropLast() }
        guard name.contains(".") else { throw ParseError("is no domain, write one like \(example)") }
        return try TypedText.hostName(String(name))
    }

    /// The region in the id of a user pool.
    private static func region(ofPool text: String) throws(ParseError) -> String {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        let isPool =
            parts.count == 2 && parts[0].split(separator: "-").count >= 3
            && parts[0].allSatisfy { $0.isASCII && ($0.isLowercase || $0.isNumber || $0 == "-") }
            && !parts[1].isEmpty && parts[1].allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
        guard isPool else { throw ParseError("is no id of a user pool, write one like eu-west-1_AbCdEf123") }
        return String(parts[0])
    }

    private static func project(_ text: String) throws(ParseError) -> String {
        try check(text, "is no reference of a Supabase project, write one like abcdefghijklmnopqrst, or the project's domain") {
            $0.isLowercase || $0.isNumber
        }
        return text
    }

    /// The URL of a realm without a slash at the end.
    private static func realm(_ text: String) throws(ParseError) -> String {
        let url = try TypedText.webURL(text.hasSuffix("/") ? String(text.dropLast()) : text)
        guard let range = url.firstRange(of: "/realms/"), !url[range.upperBound...].isEmpty, !url[range.upperBound...].contains("/") else {
            throw ParseError("names no realm, write a URL like https://sso.example.org/realms/main")
        }
        return url
    }

    private static func check(_ text: String, _ complaint: String, _ fits: (Character) -> Bool) throws(ParseError) {
        guard !text.isEmpty, text.utf8.count <= 256, text.allSatisfy({ $0.isASCII && fits($0) }) else { throw ParseError(complaint) }
    }
}

extension OutsideIssuer.Kind {
    /// As its vendor writes it.
    var title: String {
        switch self {
        case .auth0: "Auth0"
        case .cognito: "Amazon Cognito"
        case .firebase: "Firebase"
        case .supabase: "Supabase"
        case .clerk: "Clerk"
        case .keycloak: "Keycloak"
        }
    }

    /// The question for the part of the issuer's URL that is the operator's own.
    var tenantQuestion: String {
        switch self {
        case .auth0: "The domain of your Auth0 tenant, like example.eu.auth0.com"
        case .cognito: "The id of your user pool, like eu-west-1_AbCdEf123"
        case .firebase: "The id of your Firebase project, like my-app-1a2b3"
        case .supabase: "The reference of your Supabase project, like abcdefghijklmnopqrst, or its custom domain"
        case .clerk: "The domain of your Clerk Frontend API, like example-1.clerk.accounts.dev"
        case .keycloak: "The URL of your realm, like https://sso.example.org/realms/main"
        }
    }

    /// The question for the token's audience or client; nil where the tenant says it, or there is none.
    var audienceQuestion: String? {
        switch self {
        case .auth0: "The identifier of your API in Auth0 (the tokens' aud), like https://api.example.org"
        case .cognito: "The id of your app client (the tokens' client_id)"
        case .keycloak: "The tokens' aud: account, until the client has an audience mapper"
        case .firebase, .supabase, .clerk: nil
        }
    }

    var asksForAudience: Bool { audienceQuestion != nil }

    /// Whether a claim that the route demands, and no `aud`, tells the tokens of one app from those of others.
    var bindsClient: Bool { self == .cognito }

    /// Comments above its trust line: which tokens these are, and where their tier may come from.
    var notes: [String] {
        switch self {
        case .auth0:
            [
                "Access tokens for one API of Auth0. An Action can add a tier under a URL as its name: add",
                "tier-claim=https://example.org/tier then.",
            ]
        case .cognito:
            [
                "Access tokens of a user pool of Amazon Cognito. They have no aud; their client_id names the app. A trigger before the",
                "token's generation can add a claim named tier.",
            ]
        case .firebase: ["ID tokens of a Firebase project, which apps send as bearer tokens. A custom claim named tier counts."]
        case .supabase:
            ["Access tokens of a Supabase project with asymmetric signing keys. A Custom Access Token Hook can add a claim named tier."]
        case .clerk: ["Session tokens of Clerk, which have no aud. The session token can be customised to have a claim named tier."]
        case .keycloak: ["Access tokens of one realm of Keycloak. A mapper of the client can add a claim named tier."]
        }
    }
}
