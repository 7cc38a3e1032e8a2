package import Accounts
package import Credentials
import Gate
import HTTP

/// All endpoints of contracts, account page and purchases. A new contract is one more value here; `dlauth`, of which no two endpoints are alike, is
/// code.
package enum Catalogue {
    static let contracts = [password, provider, apple, dlauth, anonymous]

    package static let endpoints: [CatalogueEndpoint] = {
        var endpoints =
            contracts.flatMap(\.rows) + WebAccount.rows + [WebPage.endpoint] + PurchaseEndpoints.rows + AccountEndpoints.rows
            + WayBackPage.rows + PasskeyEndpoints.rows
        for index in endpoints.indices { endpoints[index].number = firstNumber + UInt16(index) }
        return endpoints
    }()

    /// Lower numbers are those of other local endpoints, such as health and metrics.
    package static let firstNumber: UInt16 = 64

    package static func endpoints(of contract: ContractID) -> [CatalogueEndpoint] {
        endpoints.filter { $0.owner == .contract(contract) }
    }

    /// The account page and its API.
    package static let pageEndpoints = endpoints.filter { $0.owner == .page }

    /// Those of purchases where these stores are set up.
    package static func purchaseEndpoints(of stores: Set<PurchaseSource>) -> [CatalogueEndpoint] {
        endpoints.filter { endpoint in
            guard case .purchases(let store) = endpoint.owner else { return false }
            return store.map(stores.contains) ?? true
        }
    }

    /// Those by which users see and change their accounts, with the second factor and passkeys where those are set up.
    package static func accountEndpoints(factors: Bool = true, passkeys: Bool = true) -> [CatalogueEndpoint] {
        endpoints.filter { $0.owner == .account || factors && $0.owner == .factors || passkeys && $0.owner == .passkeys }
    }

    static func contract(_ id: ContractID) -> Contract {
        guard let contract = contracts.first(where: { $0.id == id }) else { preconditionFailure("\(id.name) is not in the catalogue") }
        return contract
    }

    /// The base path of a contract's document, as `TOLLGATE_CONTRACTS` spells it.
    package static func documentedBase(of id: ContractID) -> String { contract(id).base }

    /// The documented providers whose ID tokens its sign-in takes.
    package static func providers(of id: ContractID) -> [Provider] { contract(id).providers }

    /// Whether its sign-in takes ID tokens of the provider.
    package static func takes(_ provider: Provider, _ id: ContractID) -> Bool { contract(id).takes(provider) }

    /// Whether it sends codes or links by mail.
    package static func sendsMail(_ id: ContractID) -> Bool { contract(id).sendsMail }

    /// The ways to sign in that these contracts offer.
    package static func ways(of mounted: [ContractID]) -> SignInWays {
        let takesPasswords = { (id: ContractID) in id == .dlauth || contract(id).endpoints.contains { $0.operation == .login } }
        return SignInWays(
            passwords: mounted.contains(where: takesPasswords), emails: mounted.contains(where: sendsMail),
            phones: mounted.contains(.dlauth))
    }

    /// The names of the refresh token, and in answers of the access token, of a contract that has refresh tokens.
    package static func refreshNames(of id: ContractID) -> (token: String, access: [String]) {
        let contract = contract(id)
        return (contract.refreshMember, contract.accessNames)
    }

    // MARK: contracts

    /// Accounts with email, phone and metadata, codes for several purposes, and rotating refresh tokens.
    private static let dlauth = Contract(
        id: .dlauth, dialect: .dlauth, base: "/", refreshMember: "refresh_token", code: DLAuthContract.rows, codeSendsMail: true,
        codeAccessNames: ["access_token", "token"])

    /// Registration and login by email and password, with a refresh token that is kept.
    private static let password: Contract = {
        // The document's clients cannot decode a user without an email or a username.
        let user: [Contract.Member] = [("id", .id), ("email", .emailOrEmpty), ("username", .username), ("is_premium", .isPremium)]
        let session: [Contract.Member] = [("user", .object(user)), ("tokens", .object([("access", .access), ("refresh", .refresh)]))]
        let noCredentials = Failure.badRequest("Email and password are required")
        return Contract(
            id: .password, dialect: .passwordContract, base: "/api/v1", refreshMember: "refresh",
            missing: ["email": noCredentials, "password": noCredentials, "refresh": .badRequest("Refresh token is required")],
            refusals: [
                .malformedEmail: .badRequest("Enter a valid email address."), .malformedUsername: .badRequest("Enter a valid username."),
                .emailTaken: .badRequest("User with this email already exists"),
                .invalidCredentials: Failure(401, "UNAUTHORIZED", "Invalid email or password"),
                .invalidRefreshToken: .badRequest("Invalid refresh token"),
            ],
            endpoints: [
                Contract.Endpoint(name: "register", operation: .register, path: "/auth/register", status: 201, answer: session),
                Contract.Endpoint(name: "login", operation: .login, path: "/auth/login", answer: session),
                Contract.Endpoint(
                    name: "refresh", operation: .refresh, path: "/auth/refresh", isRefresh: true, answer: [("access", .access)]),
                Contract.Endpoint(
                    name: "me", operation: .account, method: .get, path: "/auth/me", auth: .required,
                    answer: user + [("has_active_subscription", .hasActiveSubscription)]),
            ])
    }()

    /// Sign-in with an ID token of Apple, Google, or another provider by its name.
    private static let provider: Contract = {
        let signInError = Failure(500, "AUTH_SERVICE_ERROR", "Server error during authentication")
        let noProvider = Failure(400, "INVALID_PROVIDER", "Provider must be \"apple\" or \"google\"")
        let session: [Contract.Member] = [
            ("accessToken", .access), ("refreshToken", .refresh), ("expiresIn", .expiresIn), ("expiresAt", .expiresAt),
            ("user", .object([("id", .id), ("email", .email), ("createdAt", .createdAt)])),
        ]
        return Contract(
            id: .provider, dialect: .provider, base: "/api/v1", refreshMember: "refreshToken",
            missing: [
                "provider": noProvider, "idToken": Failure(400, "MISSING_TOKEN", "idToken field is required"),
                "refreshToken": Failure(400, "MISSING_REFRESH_TOKEN", "refreshToken field is required"),
            ],
            takesWrongTypeAsMissing: true,
            refusals: [
                .unknownProvider: noProvider, .malformedName: .badRequest("fullName holds what no name does"),
                .identityRefused: Failure(401, "AUTH_FAILED", "Invalid or expired identity token"), .keysUnavailable: signInError,
                .invalidRefreshToken: Failure(401, "INVALID_REFRESH_TOKEN", "Refresh token is invalid or expired"),
            ],
            endpoints: [
                Contract.Endpoint(
                    name: "signin", operation: .identify(.init(givenName: "givenName", familyName: "familyName", nameParent: "fullName")),
                    path: "/auth/signin", answer: session, failed: signInError),
                Contract.Endpoint(
                    name: "refresh", operation: .refresh, path: "/auth/refresh", isRefresh: true, answer: session,
                    failed: Failure(500, "REFRESH_SERVICE_ERROR", "Server error during token refresh")),
                Contract.Endpoint(
                    name: "signout", operation: .signOut, path: "/auth/signout", auth: .required, answer: [("success", .yes)]),
            ])
    }()

    /// Sign in with Apple by ID token. Both endpoints create the account if there is none.
    private static let apple: Contract = {
        let session: [Contract.Member] = [
            ("body", .object([("token", .access), ("expiresAt", .expiresAtMilliseconds), ("sessionId", .session), ("userId", .id)]))
        ]
        let retired = "authorizationCode is no longer accepted, send the idToken of Sign in with Apple"
        return Contract(
            id: .apple, dialect: .apple, base: "/", missing: ["idToken": Failure(400, "MISSING_ID_TOKEN", "idToken is required")],
            retired: ("authorizationCode", Failure(400, "AUTHORIZATION_CODE_RETIRED", retired)),
            refusals: [
                .malformedName: .badRequest("firstName or lastName holds what no name does"),
                .identityRefused: Failure(401, "INVALID_ID_TOKEN", "Invalid ID token"),
                .keysUnavailable: Failure(500, "AUTH_SERVICE_ERROR", "Apple's keys cannot be had at the moment"),
            ],
            endpoints: [
                Contract.Endpoint(
                    name: "register",
                    operation: .identify(.init(provider: .apple, givenName: "firstName", familyName: "lastName", nameRule: .firstOrFresh)),
                    path: "/registerUser", answer: session),
                Contract.Endpoint(name: "login", operation: .identify(.init(provider: .apple)), path: "/login", answer: session),
            ])
    }()

    /// Accounts without a known user, to which a code can add an email.
    private static let anonymous: Contract = {
        let tokens: [Contract.Member] = [("userId", .id), ("sessionToken", .access), ("refreshToken", .refreshIfAny)]
        let user: [Contract.Member] = [("id", .id), ("email", .email), ("createdAt", .createdAt)]
        return Contract(
            id: .anonymous, dialect: .anonymous, base: "/", refreshMember: "refreshToken",
            refusals: [
                .malformedEmail: .badRequest("email is no email address"),
                .malformedActor: .badRequest("actorType and actorId must be short plain texts"),
                .invalidRefreshToken: Failure(401, "INVALID_REFRESH_TOKEN", "Refresh token is invalid or expired"),
                .invalidCode: Failure(401, "INVALID_CODE", "The code is wrong, spent or expired"),
                .unknownEmail: Failure(401, "UNAUTHORIZED", "No account has this email"),
                .emailOfOther: Failure(401, "UNAUTHORIZED", "Another account has this email"),
            ],
            endpoints: [
                Contract.Endpoint(name: "user", operation: .open, path: "/auth/user", answer: tokens),
                Contract.Endpoint(
                    name: "email-code", operation: .sendCode, path: "/auth/email/code", auth: .optional,
                    answer: [
                        ("success", .yes), ("message", .text("Code sent to email")),
                        ("expiresIn", .number(Int(PendingCode.lifetimeSeconds))),
                    ]),
                Contract.Endpoint(
                    name: "email-verify", operation: .verifyCode, path: "/auth/email/verify", auth: .optional,
                    answer: [("success", .yes)] + tokens + [("user", .object(user))]),
                Contract.Endpoint(
                    name: "refresh", operation: .refresh, path: "/auth/refresh", isRefresh: true, answer: tokens),
                Contract.Endpoint(
                    name: "access-token", operation: .actorToken, path: "/auth/access-token", auth: .required, isRefresh: true,
                    answer: [("accessToken", .access)]),
            ])
    }()
}
