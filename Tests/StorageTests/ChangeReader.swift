import Accounts
import Testing

/// Reads the change log like a gateway, and drops duplicates by id: what is committed during a reading is also in the next.
struct ChangeReader {
    private let store: any AccountStore
    private var mark: ChangeMark
    private var seen: Set<Int64>

    /// From here on.
    init(_ store: any AccountStore) async throws {
        self.store = store
        mark = try await store.changes(since: nil).next
        seen = Set(try await store.changes(since: mark).changes.map(\.id))
    }

    /// The changes logged since the last call.
    mutating func news() async throws -> [StoreChange] {
        let reading = try await store.changes(since: mark)
        #expect(reading.isWhole)
        #expect(reading.changes.allSatisfy { $0.age < 600_000_000 })
        mark = reading.next
        return reading.changes.filter { seen.insert($0.id).inserted }.map(\.change)
    }
}
