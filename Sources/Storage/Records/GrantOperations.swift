package import Accounts
package import Wire

extension SQLStore {
    package func grant(
        _ actor: ActorName, to user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Bool {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard try sql.lockedAccount(user) != nil else { return false }
            let isNew =
                try sql.change(
                    .unlogged,
                    """
                    INSERT INTO actor_grants (account, actor_type, actor_id, granted_at) VALUES ($1, $2, $3, $4)
                    ON CONFLICT DO NOTHING
                    """,
                    [.id(user), .text(actor.type), .text(actor.id), .time(audit.now)]) == 1
            if isNew { try sql.log(.actorGranted, user, audit, detail: "\(actor.type) \(actor.id)") }
            return true
        }
    }

    package func revoke(
        _ actor: ActorName, from user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Bool {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            let wasThere =
                try sql.change(
                    .unlogged, "DELETE FROM actor_grants WHERE account = $1 AND actor_type = $2 AND actor_id = $3",
                    [.id(user), .text(actor.type), .text(actor.id)]) == 1
            if wasThere { try sql.log(.actorRevoked, user, audit, detail: "\(actor.type) \(actor.id)") }
            return wasThere
        }
    }

    package func holdsGrant(_ actor: ActorName, user: UUID) async throws(StoreFault) -> Bool {
        try await database.read(isBrief: true) { sql throws(SQLFault) in
            try sql.first(
                "SELECT granted_at FROM actor_grants WHERE account = $1 AND actor_type = $2 AND actor_id = $3",
                [.id(user), .text(actor.type), .text(actor.id)]) != nil
        }
    }

    package func grants(of user: UUID) async throws(StoreFault) -> [ActorName] {
        try await database.read { sql throws(SQLFault) in
            try sql.rows(
                "SELECT actor_type, actor_id FROM actor_grants WHERE account = $1 ORDER BY actor_type, actor_id",
                [.id(user)]
            ) { row throws(SQLFault) in ActorName(storedType: try row.text(), id: try row.text()) }
        }
    }
}
