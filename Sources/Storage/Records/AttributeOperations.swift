package import Accounts
package import Wire

extension SQLStore {
    package func change(
        _ attributes: AttributeChange, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Attributes, Metadata.Fault>? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(user) else { return nil }
            let changed = attributes.applied(to: account.attributes)
            if case .success(let attributes) = changed, attributes != account.attributes {
                try sql.setAttributes(attributes, of: user, at: audit.now)
                try sql.log(.attributesChanged, user, audit)
            }
            return changed
        }
    }
}

extension SQLTransaction {
    /// Gives a guest that becomes an account the attributes of the hook, which count before its own.
    func add(_ attributes: Attributes, to account: inout Account, _ audit: AuditContext) throws(SQLFault) {
        let attributes = attributes.completed(by: account.attributes)
        if attributes != account.attributes { try setAttributes(attributes, of: account.id, at: audit.now) }
        account.attributes = attributes
    }

    func setAttributes(_ attributes: Attributes, of user: UUID, at now: WallTime) throws(SQLFault) {
        try change(
            .account(user),
            "UPDATE accounts SET attributes = $2, tier_version = tier_version + 1, updated_at = $3 WHERE id = $1",
            [.id(user), attributes == .none ? .null : .bytes(attributes.json), .time(now)])
    }
}
