package import Admin
package import Credentials
internal import Issuers
internal import Settings
internal import Wire

extension AdminOperation {
    /// The gateway's keys, and those of outside issuers.
    static func keys(_ gateway: some OperatedGateway) -> [AdminOperation] {
        [
            AdminOperation(
                "GET", "keys", "getKeys", "The gateway's signing keys, and the keys of outside issuers with their fetches",
                access: .scope(.gatewayRead),
                answers: Record<ShownKeys>([.has("own", \.own), .has("issuers", \.issuers)]).shape
            ) { api, _ in ShownKeys(gateway) },
            AdminOperation(
                "POST", "keys/rotate", "rotateKeys", "Rotates the gateway's signing keys, as tollgate keys rotate does", access: .operator,
                answers: .list("own"), refusals: [409]
            ) { _, _ -> [SigningKeyRing.Entry] in
                do throws(RotationRefusal) {
                    return try await gateway.rotate().live(at: gateway.time)
                } catch {
                    throw AdminRefusal(error)
                }
            },
        ]
    }
}

/// Why keys are not rotated.
enum RotationRefusal: Error, Equatable {
    /// Own tokens are signed with a configured secret.
    case secret
    /// Another rotation of this gateway has not ended.
    case underWay
    /// A sentence for the operator.
    case failed(String)
}

extension AdminRefusal {
    fileprivate init(_ refusal: RotationRefusal) {
        switch refusal {
        case .secret:
            self.init(409, "CONFLICT", "Own tokens are signed with TOLLGATE_JWT_SECRET: change the secret to rotate it")
        case .underWay: self.init(409, "CONFLICT", "Another rotation is under way", [("Retry-After", "5")])
        case .failed(let reason): self.init(503, "UNAVAILABLE", "The keys were not rotated: \(reason)", [("Retry-After", "5")])
        }
    }
}

private struct ShownKeys: Sendable {
    let own: [SigningKeyRing.Entry]
    let issuers: [ShownIssuer]

    /// The issuers and providers in the order of the configuration.
    init(_ gateway: some OperatedGateway) {
        let (settings, statuses) = (gateway.configuration.settings, gateway.keyStatuses)
        own = gateway.ring?.live(at: gateway.time) ?? []
        issuers = (settings.trusts + settings.providers.map(\.source) + settings.attestations.map(\.source)).map { trust in
            ShownIssuer(trust: trust, status: statuses.first { $0.name == trust.name } ?? KeyStatus(name: trust.name))
        }
    }
}

extension SigningKeyRing {
    /// The keys that sign or verify.
    fileprivate func live(at now: WallTime) -> [Entry] { entries.filter { entry in entry.end.map { $0 > now } ?? true } }
}

extension SigningKeyRing.Entry: Recorded {
    package static let record = Record<Self>(
        "SigningKey",
        [
            .may("kid", about: "Missing for a shared secret", \.key.kid), .has("alg", \.key.algorithm.name),
            .has("state", .words(["current", "next", "retired"])) { entry in
                switch entry.state {
                case .active: "current"
                case .next: "next"
                case .retired: "retired"
                }
            },
            .has("created_at") { WallTime(seconds: $0.createdAt) }, .may("ends_at", about: "Until when a retired key verifies", \.end),
        ])

    /// nil unless it is retired.
    var end: WallTime? {
        guard case .retired(let until) = state else { return nil }
        return WallTime(seconds: until)
    }
}

/// An outside issuer or provider, with the state of its keys.
private struct ShownIssuer: Recorded {
    let trust: TrustDeclaration
    let status: KeyStatus

    static let record = Record<Self>(
        "IssuerKeys",
        [
            .has("name", \.trust.name), .may("issuer", \.trust.issuer), .may("jwks_url", \.url), .may("file", \.file),
            .has("keys", \.status.keyCount),
            .may("fetched_at", \.status.confirmedAt), .may("next_fetch_at", \.status.nextFetchAt), .has("fetches", \.status.fetches),
            .has("failures", \.status.failures), .may("last_fault", about: "The error of the last fetch", \.status.problem),
        ])

    /// Without user and password.
    private var url: String? {
        guard case .url(let url) = trust.keySource else { return nil }
        return maskingURLSecrets(url)
    }

    private var file: String? {
        guard case .file(let path) = trust.keySource else { return nil }
        return path
    }
}
