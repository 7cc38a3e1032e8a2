package import Accounts
internal import Credentials
package import Wire

extension SQLStore {
    package func add(
        _ lines: [ImportedAccount], newIDs: [UUID], _ audit: AuditContext
    ) async throws(StoreFault) -> [ImportVerdict] {
        try await database.write { sql throws(SQLFault) in
            var verdicts: [ImportVerdict] = []
            for (line, newID) in zip(lines, newIDs) { verdicts.append(try sql.add(line, newID: newID, audit)) }
            return verdicts
        }
    }
}

extension SQLTransaction {
    fileprivate mutating func add(
        _ line: ImportedAccount, newID: UUID, _ audit: AuditContext
    ) throws(SQLFault) -> ImportVerdict {
        let holders = try holders(line)
        let verdict = ImportRule.verdict(line, holders)
        switch verdict {
        case .create: try create(line, newID: newID, audit)
        case .complete(let user):
            let account = line.completing(try present(user), now: audit.now)
            try dropCodes(of: account)
            try update(account)
            try setPasswordHash(line.passwordHash?.text, of: user)
            try log(.accountOpened, user, audit, detail: line.origin.rawValue)
            for key in holders.missing(line) { try link(key, to: user, audit) }
        case .keep, .refuse: break
        }
        return verdict
    }

    private func holders(_ line: ImportedAccount) throws(SQLFault) -> ImportHolders {
        var holders = ImportHolders()
        holders.byID = try line.id.flatMap { id throws(SQLFault) in try account(id) }
        for key in line.identities {
            guard let user = try account(of: key), let account = try account(user) else { continue }
            holders.byIdentity.append(ImportHolders.Holder(key: key, account: account))
        }
        holders.byEmail = try line.email.flatMap { email throws(SQLFault) in try lockedAccount(email: email) }
        return holders
    }

    private mutating func create(_ line: ImportedAccount, newID: UUID, _ audit: AuditContext) throws(SQLFault) {
        let account = line.account(newID: newID, now: audit.now)
        // A sign-up took the email a moment ago: with that account there, the verdict is another.
        guard try insert(account, passwordHash: line.passwordHash?.text) else { throw .conflict }
        try dropCodes(of: account)
        try logOpening(of: account, audit, detail: line.origin.rawValue)
        for key in line.identities { try link(key, to: account.id, audit) }
    }
}
