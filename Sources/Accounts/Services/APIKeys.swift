internal import Credentials
package import Wire

/// The keys of partners and scripts, for the operator and for gateways.
package struct APIKeys: Sendable {
    /// The most live keys: every worker holds all of them.
    package static let most = 10_000
    private static let shownLetters = 9

    private let context: AccountContext

    package init(context: AccountContext) { self.context = context }

    package var now: WallTime { context.storeTime }

    /// All, in the order of their creation.
    package func all() async throws(AccountFailure) -> [APIKey] { try await context.ask(await context.store.apiKeys(live: false)) }

    /// Those that are neither revoked nor over.
    package func live() async throws(AccountFailure) -> [APIKey] { try await context.ask(await context.store.apiKeys(live: true)) }

    /// Makes a key. Its text is known to the caller alone; nil if there are too many.
    package func create(
        _ name: String, tier: String, routes: [String], until: WallTime?, limit: String?, by actor: AuditActor
    ) async throws(AccountFailure) -> (key: APIKey, text: String)? {
        let audit = context.audit(by: actor)
        let text = APIKeyText.make(context.random)
        let key = APIKey(
            id: context.newID(audit.now), name: name, prefix: String(text.prefix(Self.shownLetters)),
            digest: text.withRawBytes { Digest.sha256($0) }, tier: tier, routes: routes, limit: limit, createdAt: audit.now, until: until)
        return try await context.ask(await context.store.add(key, atMost: Self.most, audit)) ? (key, text) : nil
    }

    /// Revokes a key for good; nil if there is none.
    package func revoke(_ id: UUID, by actor: AuditActor) async throws(AccountFailure) -> APIKey? {
        try await context.ask(await context.store.revokeAPIKey(id, context.audit(by: actor)))
    }

    /// Notes when keys were used last.
    package func note(_ uses: [UUID: WallTime]) async throws(AccountFailure) { try await context.ask(await context.store.saw(uses)) }
}
