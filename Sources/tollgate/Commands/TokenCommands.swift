internal import Accounts
internal import Admin
internal import Contracts
internal import Credentials
internal import Gate
internal import Issuers
internal import Settings
internal import Wire

extension Command {
    /// Tokens of the gateway and of others.
    static let tokens = [
        Command.configured(
            "token mint", "mints a token with the gateway's own key",
            options: [
                CommandOption("sub", "ID", "the user; with --session an account, by id or email", isRequired: true),
                CommandOption(
                    "session", nil,
                    "opens a session of the account, so that the token can be revoked and has the account's email and tier"),
                CommandOption("tier", "TIER", "the tier claim"),
                CommandOption("email", "EMAIL", "the email claim; a verified one also needs --claim email_verified=true"),
                CommandOption("ttl", "1h", "its lifetime, up to 7d; 1h by default"),
                CommandOption("claim", "NAME=VALUE", "another claim", isRepeatable: true),
            ]
        ) { call throws(UsageFault) in
            let request = try MintCommand.Request(call.arguments)
            return { MintCommand.run(request, $0, json: call.json, at: call.now) }
        },
        Command.configured(
            "token inspect TOKEN", "decodes and verifies a token, and prints why it would be refused (- reads standard input)"
        ) { call in
            { configuration in
                let token = call.operands[0] == "-" ? call.runner.readInput() : call.operands[0]
                return InspectCommand.run(token, configuration, json: call.json, at: call.now)
            }
        },
    ]
}

/// `tollgate token mint`: issues a token with the gateway's signing key. Without `--session` no account backs it, so its email
/// counts as verified only with `--claim email_verified=true`. With it the token is of a session like those of a sign-in, which
/// ends with `user revoke`; there is no refresh token.
enum MintCommand {
    struct Request {
        let subject: String
        let tier: String?
        let email: String?
        let lifetimeSeconds: Int64
        let claims: [(name: String, value: String)]
        let opensSession: Bool

        init(_ arguments: Arguments) throws(UsageFault) {
            subject = arguments.value("sub") ?? ""
            tier = arguments.value("tier")
            email = arguments.value("email")
            opensSession = arguments.has("session")
            for option in ["tier", "email"] where opensSession && arguments.has(option) {
                let instead = option == "tier" ? ", set it by `tollgate user set-tier`" : ""
                throw Self.fault("--\(option) does not go with --session, which takes it from the account\(instead)")
            }
            guard !subject.isEmpty, subject.utf8.count <= 256 else {
                throw Self.fault("--sub is empty or longer than 256 bytes, give the id of a user")
            }
            let text = arguments.value("ttl") ?? "1h"
            do {
                let longest = UInt64(KeyStore.maxTokenSeconds) * 1000
                lifetimeSeconds = Int64(try TypedText.duration(text, 1000...longest) / 1000)
            } catch {
                throw Self.fault("--ttl \(quoted(text)) \(error.text)")
            }
            var claims: [(name: String, value: String)] = []
            for claim in arguments.values("claim") {
                let pair = claim.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
                guard pair.count == 2, !pair[0].isEmpty else {
                    throw Self.fault("--claim \(quoted(claim)) is no claim, write --claim NAME=VALUE")
                }
                claims.append((pair[0], pair[1]))
            }
            self.claims = claims
        }

        static func fault(_ message: String) -> UsageFault { UsageFault(message) }
    }

    static func run(_ request: Request, _ configuration: GatewayConfiguration, json: Bool, at now: Moment) -> CommandResult {
        guard request.opensSession else { return mint(request, nil, configuration, json: json, now: now.wall) }
        // Its end is remembered for as long as the contract's own tokens live.
        let mounted = configuration.contracts.mounts.map(\.contract)
        let contract = mounted.first { request.lifetimeSeconds <= $0.sessionPolicy.accessSeconds } ?? .password
        do throws(AccountCommandFault) {
            let signIn = try OfflineAccounts.ask(configuration, at: now) { accounts in
                do {
                    let account = try await accounts.operator.account(request.subject)
                    return SignIn(
                        account: account, session: try await accounts.operator.administration.openSession(contract, of: account.id))
                } catch OperatorRefusal.unknownName(let name) {
                    let hint = "`tollgate user create` makes one, and without --session a token needs none"
                    throw AccountCommandFault(message: "no account has the id or email \(quoted(name)), \(hint)")
                }
            }
            return mint(request, signIn, configuration, json: json, now: now.wall)
        } catch {
            return .failed(error.message, exitCode: error.exitCode)
        }
    }

    /// `signIn` is the account and the session of the token; nil without `--session`.
    private static func mint(
        _ request: Request, _ signIn: SignIn?, _ configuration: GatewayConfiguration, json: Bool, now: WallTime
    ) -> CommandResult {
        if let tier = request.tier, configuration.settings.tiers.rank(of: tier) == nil {
            return .failed("--tier \(configuration.settings.tiers.complaint(about: tier))", exitCode: 2)
        }
        var claims = TokenClaims(
            issuer: configuration.settings.issuer, audience: configuration.settings.audience,
            subject: signIn?.account.id.text ?? request.subject,
            issuedAt: now.seconds, expiresAt: now.seconds + request.lifetimeSeconds)
        claims.tier = request.tier
        claims.email = signIn == nil ? request.email : signIn?.account.email?.text
        if let account = signIn?.account, account.email != nil { claims.isEmailVerified = account.emailConfirmedAt != nil }
        if configuration.settings.tellsNames { claims.name = signIn?.account.name?.full }
        claims.sessionID = signIn?.session?.id.text
        claims.authenticatedAt = signIn?.session?.signedInAt?.seconds
        claims.tokenID = Base64URL.encode(SecureRandom.bytes(16).rawBytes)
        for claim in request.claims {
            if claim.name == "auth_time", claims.authenticatedAt == nil, let seconds = Int64(claim.value) {
                claims.authenticatedAt = seconds
                continue
            }
            if claims.add(claim.name, .string(claim.value)) { continue }
            return .failed("--claim \(claim.name) is set by Tollgate or given twice, choose another name", exitCode: 2)
        }
        return issue(claims, configuration, json: json, now: now)
    }

    private static func issue(
        _ claims: TokenClaims, _ configuration: GatewayConfiguration, json: Bool, now: WallTime
    ) -> CommandResult {
        do {
            let key = try KeyStore.open(IssuersPlan(configuration), now: now).active
            let token = try key.issue(claims)
            guard json else { return CommandResult(output: token + "\n") }
            return .json { json in
                json.beginObject()
                json.field("token", token)
                json.field("expires_at", Int(claims.expiresAt))
                json.field("algorithm", key.algorithm.name)
                json.optional("kid", key.kid)
                json.optional("session_id", claims.sessionID)
                json.endObject()
            }
        } catch let fault as KeyStoreFault {
            return .failed(fault.description)
        } catch {
            return .failed("the token cannot be signed: \(error)")
        }
    }
}

/// `tollgate token inspect`: a token's header and payload, and whether it would be accepted.
enum InspectCommand {
    static func run(_ text: String, _ configuration: GatewayConfiguration, json: Bool, at now: Moment) -> CommandResult {
        let bytes = Array(text.utf8.filter { !($0 == 10 || $0 == 13 || $0 == 32) })
        if APIKeyText.isMeant(bytes.rawBytes) { return key(isWhole: APIKeyText.isWhole(bytes.rawBytes), json: json) }
        let keys: IssuerKeys
        do {
            keys = try CurrentKeys.gather(IssuersPlan(configuration), at: now)
        } catch {
            return .failed(error.description)
        }
        let rules = configuration.settings.routes.map(\.rule)
        let trust = PolicyBuilder.trust(configuration, keys: keys, rules: rules, now: now.wall)
        var verifier = TokenVerifier()
        let result = verifier.verify(bytes.rawBytes, trust: trust, now: now.wall)
        let inspection: TokenInspection?
        do {
            inspection = try TokenInspection(bytes.rawBytes)
        } catch {
            // The verifier reports the same fault.
            inspection = nil
        }
        let session = session(of: result, configuration, at: now)
        return json ? report(inspection, result, session, trust) : describe(inspection, result, session, trust, now: now.wall)
    }

    /// An API key is no token: the gateways know it by its digest.
    private static func key(isWhole: Bool, json: Bool) -> CommandResult {
        if json {
            return .json(exitCode: isWhole ? 0 : 1) { json in
                json.beginObject()
                json.field("kind", "api_key")
                json.field("checksum_right", isWhole)
                json.endObject()
            }
        }
        let sentence =
            isWhole
            ? "its checksum is right; `tollgate key list` shows which keys are in force"
            : "its checksum is wrong: it was mistyped or cut off, and no gateway takes it"
        return CommandResult(
            output: CheckTable.table(["PART", "WHAT"], [["kind", "API key"], ["checksum", sentence]]), exitCode: isWhole ? 0 : 1)
    }

    /// The session of an own token, in words, and whether it has ended, so that gateways refuse the token.
    private typealias NamedSession = (text: String, hasEnded: Bool)
    private static let (endedReason, endedText) = ("revoked", "The token's session has ended")

    private static func session(
        of result: Result<VerifiedToken, TokenFault>, _ configuration: GatewayConfiguration, at now: Moment
    ) -> NamedSession? {
        guard case .success(let token) = result, token.isOwn, !token.sessionID.isEmpty else { return nil }
        let found = AccountDiagnosis.find(TokenUser(token.userID.text), session: token.sessionID.text, configuration, at: now)
        return (found.session ?? found.account, !found.revoked.isEmpty)
    }

    private static func describe(
        _ inspection: TokenInspection?, _ result: Result<VerifiedToken, TokenFault>, _ session: NamedSession?, _ trust: Trust, now: WallTime
    ) -> CommandResult {
        var rows = [["header", inspection?.header ?? "cannot be decoded"], ["payload", inspection?.payload ?? "cannot be decoded"]]
        switch result {
        case .success(let token):
            rows.append(["issuer", trust.issuers[token.issuerIndex].name])
            rows.append(["expires", "\(ISO8601.text(WallTime(seconds: token.expiresAt))), in \(token.expiresAt - now.seconds) s"])
            if let session { rows.append(["session", session.text]) }
            if token.owner != nil {
                rows.append(["device key", "each request needs a proof of the key in cnf (DPoP), except on routes with proof=off"])
            }
            let hasEnded = session?.hasEnded == true
            rows.append(["verdict", hasEnded ? "refused: \(endedReason), \(endedText)" : "accepted"])
            return CommandResult(output: CheckTable.table(["PART", "WHAT"], rows), exitCode: hasEnded ? 1 : 0)
        case .failure(let fault):
            rows.append(["verdict", "refused: \(AuthReason(fault).text), \(fault.errorDescription)"])
            return CommandResult(output: CheckTable.table(["PART", "WHAT"], rows), exitCode: 1)
        }
    }

    private static func report(
        _ inspection: TokenInspection?, _ result: Result<VerifiedToken, TokenFault>, _ session: NamedSession?, _ trust: Trust
    ) -> CommandResult {
        var isAccepted = session?.hasEnded != true
        if case .failure = result { isAccepted = false }
        return .json(exitCode: isAccepted ? 0 : 1) { json in
            json.beginObject()
            if let header = inspection?.header { json.verbatim("header", header) }
            if let payload = inspection?.payload { json.verbatim("payload", payload) }
            json.field("accepted", isAccepted)
            switch result {
            case .success(let token):
                json.field("issuer", trust.issuers[token.issuerIndex].name)
                json.field("algorithm", token.algorithm.name)
                json.field("expires_at", Int(token.expiresAt))
                json.optional("session", session?.text)
                json.field("needs_proof", token.owner != nil)
                if session?.hasEnded == true {
                    json.field("reason", endedReason)
                    json.field("description", endedText)
                }
            case .failure(let fault):
                json.field("reason", AuthReason(fault).text)
                json.field("description", fault.errorDescription)
            }
            json.endObject()
        }
    }
}

extension JSONWriter {
    /// A member whose value is valid JSON already.
    fileprivate mutating func verbatim(_ name: StaticString, _ text: String) {
        key(name)
        text.withRawBytes { verbatim($0) }
    }
}
