import Accounts
import Testing

@testable import Storage

/// Transactions that end before their first statement.
@Suite struct TransactionTests {
    private final class RefusingConnection: SQLConnection {
        let dialect = SQLDialect.sqlite
        var touched = TouchedRows()
        private(set) var rolledBack = 0

        func begin(isWriting: Bool) throws(SQLFault) { throw .busy("after BEGIN, a setting is refused") }
        func rollBack() { rolledBack += 1 }
        func run(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult { SQLResult() }
        func commit() throws(SQLFault) {}
        func findTables() throws(SQLFault) -> Bool { true }
        func lockSchema() throws(SQLFault) {}
    }

    /// The connection stays, so it must not keep a transaction.
    @Test func oneThatCannotBeginIsRolledBack() {
        let connection = RefusingConnection()
        #expect(throws: SQLFault.busy("after BEGIN, a setting is refused")) {
            try connection.transaction(isWriting: false) { _ throws(SQLFault) in }
        }
        #expect(connection.rolledBack == 1)
    }

    /// One with a change that comes to nothing is not committed, nor is what it changed before.
    @Test(arguments: Backend.allCases) func oneWhoseLastChangeComesToNothingIsNotCommitted(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        let (ada, nobody) = (try await store.opened("ada@x").account.id, newID())
        func write(_ last: WireID) async -> StoreFault? {
            await fault {
                try await store.database.write { sql throws(SQLFault) in
                    try sql.change(.unlogged, "UPDATE accounts SET tier = 'gold' WHERE id = $1", [.id(ada)])
                    try sql.changeLater("UPDATE accounts SET tier_version = tier_version + 1 WHERE id = $1", [.id(last)])
                }
            }
        }
        #expect(await write(nobody) == StoreFault(.conflict))
        #expect(try await store.account(ada)?.entitlement.tier == nil)
        #expect(await write(ada) == nil)
        #expect(try await store.account(ada)?.entitlement.tier == "gold")
    }

    /// However many accounts claim purchases of a store, its notifications have a turn.
    @Test func claimsShutNoNotificationOut() async throws {
        let shares = RowShares(share: 1, capacity: 0)
        @Sendable func run(_ row: LockedRow, _ call: () async -> Void = {}) async -> StoreFault? {
            await fault {
                try await shares.run(row, account: { row in row }) { () async throws(StoreFault) in await call() }
            }
        }
        let claimed = await run(.claims(.apple)) {
            #expect(await run(.claims(.apple)) != nil)
            #expect(await run(.notifications(.apple)) == nil)
        }
        #expect(claimed == nil)
    }

    /// A call whose look-up of its row fails is not made: it would have the share of another row.
    @Test func aRowThatCannotBeLookedUpIsTheFaultOfTheCall() async throws {
        let shares = RowShares(share: 1, capacity: 1)
        let away = StoreFault.unavailable("nobody answers")
        let found = Noted<StoreFault?>(nil)
        let calls = Noted(0)
        // It runs beside another call, so it is looked up.
        try await shares.run(.contact("ada@x"), account: { row in row }) { () async throws(StoreFault) in
            do throws(StoreFault) {
                try await shares.run(.contact("bob@x"), account: { _ async throws(StoreFault) in throw away }) {
                    () async throws(StoreFault) in calls.change { $0 += 1 }
                }
            } catch {
                found.change { $0 = error }
            }
        }
        #expect(found.now == away && calls.now == 0)
    }
}
