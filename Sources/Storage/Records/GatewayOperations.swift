package import Accounts
package import Wire

/// Rows of live gateways, and fences. Nothing of them must outlive the server, so no commit waits for the disk where the dialect allows it.
extension SQLStore {
    package func renew(_ gateway: LiveGateway, joins: Bool) async throws(StoreFault) -> Bool {
        try await database.write(isDurable: false) { sql throws(SQLFault) in
            let values: [SQLValue] = [.id(gateway.id), .integer(gateway.passed)]
            return joins
                ? try sql.change(
                    .unlogged,
                    """
                    INSERT INTO gateways (id, passed, name, seen_at) VALUES ($1, $2, $3, \(sql.dialect.clock))
                    ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, passed = excluded.passed
                    """, values + [.text(gateway.name)]) == 1
                : try sql.change(
                    .unlogged,
                    """
                    UPDATE gateways SET seen_at = \(sql.dialect.clock), passed = CASE WHEN passed < $2 THEN $2 ELSE passed END
                    WHERE id = $1
                    """, values) == 1
        }
    }

    package func remove(_ gateway: UUID) async throws(StoreFault) {
        try await database.write { sql throws(SQLFault) in
            _ = try sql.change(.unlogged, "DELETE FROM gateways WHERE id = $1", [.id(gateway)])
        }
    }

    package func gateways(besides gateway: UUID) async throws(StoreFault) -> [LiveGateway] {
        let life = LiveGateway.lifeSeconds * 1_000_000
        return try await database.read(isBrief: true) { sql throws(SQLFault) in
            // A row far ahead is from before the clock was set back.
            try sql.rows(
                """
                SELECT id, name, passed FROM gateways
                WHERE id <> $1 AND seen_at > \(sql.dialect.clock) - \(life) AND seen_at < \(sql.dialect.clock) + \(life)
                """, [.id(gateway)]
            ) { row throws(SQLFault) in LiveGateway(id: try row.id(), name: try row.text(), passed: try row.integer()) }
        }
    }

    package func raiseFence(by gateway: UUID, inPlaceOf former: Int64?) async throws(StoreFault) -> Int64 {
        try await database.write(isDurable: false) { sql throws(SQLFault) in try sql.logFence(by: gateway, inPlaceOf: former) }
    }
}
