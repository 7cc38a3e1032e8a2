package import Accounts
internal import Credentials
package import Wire

/// Called after a transaction of this process has committed rows that the change log covers, with the accounts it changed
/// (none if it changed something else). The call that made the change returns after this does.
package typealias ChangeNotice = @Sendable (_ accounts: [UUID]) async -> Void

/// `changes.kind`. The triggers of each `SQLDialect` write these numbers.
private enum ChangeKind: Int64 {
    case account = 1
    case ended = 2
    case secrets = 3
    case identity = 4
    case fence = 5
    case switches = 6
    case apiKeys = 7
    case factor = 8
}

extension SQLStore {
    /// So many are read on the thread of the caller; others wait for that.
    private static let fewChanges = 256

    package func changes(since mark: ChangeMark?) async throws(StoreFault) -> ChangeReading {
        let reading = try await changes(since: mark, atMost: Self.fewChanges)
        return reading.isWhole ? reading : try await changes(since: mark, atMost: ChangeReading.most)
    }

    private func changes(since mark: ChangeMark?, atMost most: Int) async throws(StoreFault) -> ChangeReading {
        let (reading, unreadable) = try await database.read(isBrief: most == Self.fewChanges) { sql throws(SQLFault) in
            // Read before the changes: a transaction that commits in between is in this reading and in the next.
            let (next, time) = try sql.endOfLog()
            guard let mark else {
                return (ChangeReading(changes: [], next: next, isWhole: true, time: time, newest: try sql.newestChange()), [String]())
            }
            guard mark.server == next.server, mark <= next, let (changes, unreadable) = try sql.changes(since: mark, most) else {
                return (ChangeReading(changes: [], next: next, isWhole: false, time: time), [])
            }
            return (ChangeReading(changes: changes, next: next, isWhole: true, time: time), unreadable)
        }
        skipped(unreadable)
        return reading
    }
}

extension SQLTransaction {
    /// How long entries are kept.
    static let keptMicroseconds: Int64 = 86_400_000_000

    /// The end of the log, and the server's clock if that is one for all gateways.
    fileprivate func endOfLog() throws(SQLFault) -> (ChangeMark, WallTime?) {
        let inProgress = dialect.changesInProgress?.values ?? "NULL"
        guard var row = try first("SELECT \(dialect.changeEnd), \(dialect.serverStart), \(inProgress), \(dialect.clock)", []) else {
            throw .failed("the log of changes has no end")
        }
        let mark = ChangeMark(value: try row.integer(), server: try row.integer(), inProgress: try row.optionalText())
        return (mark, dialect.isClockShared ? try row.time() : nil)
    }

    fileprivate func newestChange() throws(SQLFault) -> Int64 {
        var row = try first("SELECT MAX(id) FROM changes", [])
        return try row?.optionalInteger() ?? 0
    }

    /// Changes from `mark` on, and why others cannot be read; nil if they are more than a reading has. A restored dump has those of the
    /// server that it was made on: its numbers may be ahead of this one's, and such a change is read when this server reaches its number,
    /// not at each reading until then.
    fileprivate func changes(since mark: ChangeMark, _ most: Int) throws(SQLFault) -> ([LoggedChange], unreadable: [String])? {
        let (unended, values) = mark.inProgress.map { (dialect.changesInProgress?.contain, [.text($0)]) } ?? (nil, [SQLValue]())
        // The bound comes before the joins and the order: many changes cost one pass over that many entries of an index.
        let found = try rows(
            """
            SELECT c.id, \(dialect.clock), c.at, c.kind, c.identity_provider, c.identity_subject, c.subject,
                CASE WHEN e.id IS NULL THEN 0 ELSE 1 END, e.account, e.ended_at, e.reason, e.expires_at, f.factor_at,
                a.tier_version, a.tier, a.tier_until, a.grants, a.email, a.email_confirmed_at, \(SQLTransaction.standingColumns)
            FROM (
                SELECT * FROM changes c
                WHERE c.\(dialect.changeMark) >= $1 AND c.\(dialect.changeMark) < \(dialect.changeEnd)\(unended.map { " OR \($0)" } ?? "")
                LIMIT \(most + 1)
            ) c LEFT JOIN accounts a ON c.kind = 1 AND a.id = c.subject LEFT JOIN ended_sessions e ON c.kind = 2 AND e.id = c.subject
            LEFT JOIN sessions f ON c.kind = 8 AND f.id = c.subject
            ORDER BY c.id
            """,
            [.integer(mark.value)] + values)
        guard found.count <= most else { return nil }
        var (changes, unreadable): ([LoggedChange], [String]) = ([], [])
        for var row in found {
            let id = try row.integer()
            do throws(SQLFault) {
                if let (change, age) = try Self.change(&row, &unreadable) { changes.append(LoggedChange(id: id, change: change, age: age)) }
            } catch {
                unreadable.append("change \(id) of the change log is skipped: \(error.reason)")
            }
        }
        return (changes, unreadable)
    }

    /// The columns behind the number, with the age; nil for an ended session that has been swept, and for kinds of later releases.
    private static func change(_ row: inout SQLRow, _ unreadable: inout [String]) throws(SQLFault) -> (StoreChange, age: Int64)? {
        let now = try row.time()
        // When it was made only tells how late it is read.
        let age = now.microseconds(since: (try? row.time()) ?? now)
        let kind = ChangeKind(rawValue: try row.integer())
        let (provider, name) = (try row.optionalText(), try row.optionalText())
        if kind == .secrets { return (.secrets, age) }
        if kind == .switches { return (.switches, age) }
        if kind == .apiKeys { return (.apiKeys, age) }
        if kind == .identity {
            guard let provider, let name else { return nil }
            return (.identity(IdentityKey(IdentitySource(stored: provider), stored: name)), age)
        }
        guard let kind, let subject = try row.optionalID() else { return nil }
        if kind == .fence { return (.fence(by: subject), age) }
        let isKept = try row.flag()
        let ended = EndedSession(subject, &row, at: now)
        if kind == .ended { return isKept ? (.ended(ended), age) : nil }
        let factorAt = try row.optionalTime()
        if kind == .factor { return (.factor(ProvenSession(id: subject, at: factorAt)), age) }
        guard let version = try row.optionalInteger() else { return (.accountDeleted(subject), age) }
        do throws(SQLFault) {
            return (.account(subject, try row.standing(version: version)), age)
        } catch {
            // It has the lowest tier and no proven email until it can be read.
            unreadable.append("the account \(subject.text) cannot be read: \(error.reason)")
            return (.account(subject, AccountStanding(Entitlement(tier: nil, until: nil, version: version))), age)
        }
    }

    /// Logs a change of an identity that no trigger sees, and tells other gateways of it.
    func logChange(of identity: IdentityKey) throws(SQLFault) {
        try change(
            .identity,
            """
            INSERT INTO changes (kind, identity_provider, identity_subject, at)
            VALUES (\(ChangeKind.identity.rawValue), $1, $2, \(dialect.clock))
            """,
            [.text(identity.source.stored), .text(identity.subject)])
        _ = try rows("SELECT \(dialect.notice)", [])
    }

    /// Logs a change of a live switch, and tells other gateways of it; returns the id of the entry.
    func logSwitches() throws(SQLFault) -> Int64 { try log(.switches) }

    /// The same for API keys.
    func logAPIKeys() throws(SQLFault) { _ = try log(.apiKeys) }

    /// Notes when the user of a session has proven the second factor, or that the proof counts no more, and tells all gateways.
    func logFactor(of session: UUID, at time: WallTime?) throws(SQLFault) {
        try change(.factor, "UPDATE sessions SET factor_at = $2 WHERE id = $1", [.id(session), .time(time)])
        let entry = "INSERT INTO changes (kind, subject, at) VALUES (\(ChangeKind.factor.rawValue), $1, \(dialect.clock))"
        _ = try firsts([SQLStatement("SELECT \(dialect.notice)"), SQLStatement(entry, [.id(session)])])
    }

    private func log(_ kind: ChangeKind) throws(SQLFault) -> Int64 {
        let entry = "INSERT INTO changes (kind, at) VALUES (\(kind.rawValue), \(dialect.clock)) RETURNING id"
        let rows = try firsts([SQLStatement("SELECT \(dialect.notice)"), SQLStatement(entry)])
        guard var row = rows[1] else { throw .failed("the change log has not taken a change") }
        return try row.integer()
    }

    /// Logs a fence, and tells other gateways of it.
    func logFence(by gateway: UUID, inPlaceOf former: Int64?) throws(SQLFault) -> Int64 {
        let fence =
            "INSERT INTO changes (kind, subject, at) VALUES (\(ChangeKind.fence.rawValue), $1, \(dialect.clock)) RETURNING id"
        let rows = try firsts([
            SQLStatement("SELECT \(dialect.notice)"),
            // After a failover or a restore its number may be that of another entry.
            SQLStatement(
                "DELETE FROM changes WHERE id = $1 AND kind = \(ChangeKind.fence.rawValue) AND subject = $2",
                [.integer(former ?? 0), .id(gateway)]),
            SQLStatement(fence, [.id(gateway)]),
        ])
        guard var row = rows[2] else { throw .failed("the change log has not taken a fence") }
        return try row.integer()
    }
}

/// The rows that a statement writes, if the change log covers them. Every writing statement declares its own, for
/// `ChangeNotice`; the triggers log the same changes, and those made by other programs.
enum WrittenRows {
    /// Changes or deletes this account.
    case account(UUID)
    /// Adds an ended session.
    case endedSession
    case sealedSecret
    /// Sets or removes a live switch.
    case liveSwitch
    /// Adds or revokes an API key.
    case apiKey
    /// Links or unlinks an identity.
    case identity
    /// Notes or removes the proof of a second factor.
    case factor
    /// Rows that no gateway caches: other tables, new accounts, and expired rows that are removed.
    case unlogged
}

/// The rows under the change log that a transaction has changed.
struct TouchedRows: Sendable {
    /// Without duplicates.
    private(set) var accounts: [UUID] = []
    private(set) var isLogged = false

    mutating func note(_ rows: WrittenRows) {
        switch rows {
        case .account(let user):
            isLogged = true
            if !accounts.contains(user) { accounts.append(user) }
        case .endedSession, .sealedSecret, .liveSwitch, .apiKey, .identity, .factor: isLogged = true
        case .unlogged: break
        }
    }
}

extension WallTime {
    /// Clamped to the range: `earlier` may be of any clock.
    fileprivate func microseconds(since earlier: WallTime) -> Int64 {
        let (age, overflows) = microseconds.subtractingReportingOverflow(earlier.microseconds)
        return overflows ? (earlier < self ? .max : .min) : age
    }
}
