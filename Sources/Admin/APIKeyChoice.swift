package import Accounts
internal import Gate
package import Wire

/// A new API key, as the operator asks for it on the command line or by the admin API.
package struct APIKeyChoice: Sendable {
    package enum Fault: Error {
        case name
        case tier(TierChoice.Fault)
        case route(String, known: [String])
        /// A list without a route, which may have been meant otherwise.
        case noRoutes
        case limit(String)
        case tooMany
    }

    private static let longestName = 64

    let name: String
    let tier: String
    let routes: [String]
    let until: WallTime?
    let limit: String?

    /// `routes` in any case; nil for all that take keys.
    package init(
        name: String, tier: String, routes: [String]?, until: String?, limit: String?, _ plan: OperatorPlan, now: WallTime
    ) throws(Fault) {
        let isPlain = name.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }
        guard isPlain, (1...Self.longestName).contains(name.utf8.count), name.first != " ", name.last != " " else { throw .name }
        let end: WallTime?
        do throws(TierChoice.Fault) { end = try TierChoice.end(until) } catch { throw .tier(error) }
        if let end, end <= now { throw .tier(.pastEnd(end)) }
        guard plan.tiers.rank(of: tier) != nil else { throw .tier(.unknownTier(tier, plan.tiers)) }
        var seen: Set<String> = []
        if let routes, routes.isEmpty { throw .noRoutes }
        self.routes = (routes ?? []).map { $0.lowercased() }.filter { seen.insert($0).inserted }
        if let unknown = self.routes.first(where: { !plan.keyRoutes.contains($0) }) { throw .route(unknown, known: plan.keyRoutes) }
        if let limit {
            guard let rate = LimitRate(parsing: limit), !rate.mayLease else { throw .limit(limit) }
        }
        self.name = name
        self.tier = tier
        self.until = end
        self.limit = limit
    }
}

extension APIKeyChoice.Fault {
    /// The message. `prefix` is that of the names of parameters.
    package func message(_ prefix: String = "") -> String {
        switch self {
        case .name: "\(prefix)name must have 1 to 64 bytes without control characters and without a space at its ends"
        case .tier(let fault): fault.message(end: "\(prefix)until", tier: "\(prefix)tier ")
        case .route(let name, let known):
            known.isEmpty
                ? "\(prefix)routes names \(quoted(name)), and no route takes keys: write auth=key or auth=required,key on it"
                : "\(prefix)routes names \(quoted(name)), the routes that take keys are \(known.joined(separator: ", "))"
        case .noRoutes: "\(prefix)routes names no route, leave it out for all that take keys"
        case .limit(let text): "\(prefix)limit \(quoted(text)) is no rate, write one like 100/m or 10/h+burst=5"
        case .tooMany: "there are \(APIKeys.most) keys already, revoke some"
        }
    }
}

extension APIKey: Recorded {
    package static var record: Record<Self> { Record("APIKey", fields) }

    /// The record with the text of the key, which is shown once.
    package static func record(with text: String) -> Record<Self> {
        Record(fields + [.has("key", about: "Shown once") { _ in text }])
    }

    private static var fields: [RecordField<Self>] {
        [
            .has("id", about: "`X-User-Id` of its requests", \.id), .has("name", \.name),
            .has("prefix", about: "The beginning of the key", \.prefix), .has("tier", .tier, \.tier),
            .has("routes", about: "Empty for all that take keys", \.routes), .may("limit", \.limit), .has("created_at", \.createdAt),
            .may("until", \.until), .may("last_used_at", about: "True within a minute", \.lastUsedAt), .may("revoked_at", \.revokedAt),
        ]
    }
}

extension Operator {
    package func apiKeys() async throws -> [APIKey] { try await directory.apiKeys.all() }

    /// Makes a key; its text is shown once.
    package func create(_ choice: APIKeyChoice) async throws -> (key: APIKey, text: String) {
        let made = try await directory.apiKeys.create(
            choice.name, tier: choice.tier, routes: choice.routes, until: choice.until, limit: choice.limit, by: administration.actor)
        guard let made else { throw OperatorRefusal.apiKey(.tooMany) }
        return made
    }

    /// Revokes a key for good.
    package func revoke(apiKey id: UUID) async throws -> APIKey {
        guard let key = try await directory.apiKeys.revoke(id, by: administration.actor) else { throw OperatorRefusal.unknownAPIKey }
        return key
    }
}
