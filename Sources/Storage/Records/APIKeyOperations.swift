package import Accounts
package import Wire

/// The table `api_keys`.
extension SQLStore {
    package func apiKeys(live: Bool) async throws(StoreFault) -> [APIKey] {
        try await database.read { sql throws(SQLFault) in
            let condition = live ? " WHERE revoked_at IS NULL AND (ends_at IS NULL OR ends_at > (SELECT \(sql.dialect.clock)))" : ""
            return try sql.apiKeys(condition, [])
        }
    }

    package func add(_ key: APIKey, atMost most: Int, _ audit: AuditContext) async throws(StoreFault) -> Bool {
        try await database.write { sql throws(SQLFault) in
            var row = try sql.first(
                "SELECT COUNT(*) FROM api_keys WHERE revoked_at IS NULL AND (ends_at IS NULL OR ends_at > (SELECT \(sql.dialect.clock)))",
                [])
            guard try row?.integer() ?? 0 < Int64(most) else { return false }
            try sql.change(
                .apiKey,
                """
                INSERT INTO api_keys (id, name, prefix, digest, tier, routes, rate, created_at, ends_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                """,
                [
                    .id(key.id), .text(key.name), .text(key.prefix), .bytes(key.digest), .text(key.tier),
                    .text(key.routes.joined(separator: ",")), .text(key.limit), .time(key.createdAt), .time(key.until),
                ])
            try sql.logAPIKeys()
            try sql.log(.apiKeyCreated, nil, audit, detail: key.shownName)
            return true
        }
    }

    package func revokeAPIKey(_ id: UUID, _ audit: AuditContext) async throws(StoreFault) -> APIKey? {
        try await database.write { sql throws(SQLFault) in
            guard var key = try sql.apiKeys(" WHERE id = $1\(sql.dialect.lockClause)", [.id(id)]).first else { return nil }
            guard key.revokedAt == nil else { return key }
            key.revokedAt = audit.now
            try sql.change(.apiKey, "UPDATE api_keys SET revoked_at = $2 WHERE id = $1", [.id(id), .time(audit.now)])
            try sql.logAPIKeys()
            try sql.log(.apiKeyRevoked, nil, audit, detail: key.shownName)
            return key
        }
    }

    package func saw(_ keys: [UUID: WallTime]) async throws(StoreFault) {
        try await database.write(isDurable: false) { sql throws(SQLFault) in
            // In one order on all gateways, so that none waits for another in a circle.
            for (id, time) in keys.sorted(by: { $0.key < $1.key }) {
                try sql.change(
                    .unlogged, "UPDATE api_keys SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
                    [.id(id), .time(time)])
            }
        }
    }
}

extension APIKey {
    /// For the audit log.
    fileprivate var shownName: String { "\(name) (\(id.text))" }
}

extension SQLTransaction {
    fileprivate func apiKeys(_ condition: String, _ values: [SQLValue]) throws(SQLFault) -> [APIKey] {
        let columns = "id, name, prefix, digest, tier, routes, rate, created_at, ends_at, last_used_at, revoked_at"
        // A lock comes last, and there the order says nothing.
        let order = values.isEmpty ? " ORDER BY created_at, id" : ""
        return try rows("SELECT \(columns) FROM api_keys\(condition)\(order)", values) { row throws(SQLFault) in
            APIKey(
                id: try row.id(), name: try row.text(), prefix: try row.text(), digest: try row.bytes(), tier: try row.text(),
                routes: try row.text().split(separator: ",").map(String.init), limit: try row.optionalText(), createdAt: try row.time(),
                until: try row.optionalTime(), lastUsedAt: try row.optionalTime(), revokedAt: try row.optionalTime())
        }
    }
}
