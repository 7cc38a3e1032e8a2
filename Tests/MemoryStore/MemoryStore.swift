package import Accounts
import Foundation
@testable package import Storage
import Synchronization
import Wire

/// Accounts in an SQLite database in memory, for tests.
package typealias MemoryStore = SQLStore

extension SQLStore {
    /// An empty store. Its calls run on the threads that make them, one at a time.
    package convenience init() { self.init(MemoryDatabase(), report: { _ in }) }

    private var memory: MemoryDatabase {
        guard let memory = database as? MemoryDatabase else { preconditionFailure("the store was not made by init()") }
        return memory
    }

    /// How often it was asked anything.
    package var calls: Int { memory.controls.withLock { $0.calls } }

    /// The next calls fail so, one after the other.
    package func fail(_ next: [StoreFault]) { memory.controls.withLock { $0.faults += next } }

    /// The next readings of the change log fail so.
    package func failReadings(of fault: StoreFault, count: Int) {
        memory.controls.withLock { $0.readingFaults += Array(repeating: fault, count: count) }
    }

    /// Called once, between the next reading and its caller's hearing of it.
    package func afterNextCall(_ body: @escaping @Sendable () -> Void) { memory.controls.withLock { $0.follower = body } }

    /// Every session that the change log tells of, the oldest first.
    package var endings: [EndedSession] {
        get async {
            let reading = try? await changes(since: ChangeMark(value: 0))
            return reading?.changes.compactMap { if case .ended(let session) = $0.change { session } else { nil } } ?? []
        }
    }
}

/// An SQLite file on a disk in memory that no other connection can open.
// Unchecked: the connection is used under the lock of `turn` alone.
private final class MemoryDatabase: SQLDatabase, @unchecked Sendable {
    struct Controls {
        var calls = 0
        var faults: [StoreFault] = []
        var readingFaults: [StoreFault] = []
        var follower: (@Sendable () -> Void)?
    }

    let controls = Mutex(Controls())
    let onChange: ChangeNotice = { _ in }
    func executor(for _: IPAddress?) -> any TaskExecutor { globalConcurrentExecutor }
    private let turn = Mutex(())
    private let connection: SQLiteConnection

    init() {
        let path = Self.newPath()
        do {
            try Self.template.write(to: URL(filePath: path))
            connection = try Self.open(path)
            // Makes the files beside it, which then stay open without their names, too.
            _ = try connection.transaction(isWriting: true) { sql throws(SQLFault) in try Schema.version(sql) }
        } catch {
            preconditionFailure("no database in memory: \(error)")
        }
        Self.remove(path)
    }

    /// A database with the schema and nothing else.
    private static let template: Data = {
        let path = newPath()
        defer { remove(path) }
        do {
            var connection: SQLiteConnection? = try open(path)
            try connection.map { connection throws(SQLFault) in try Schema.update(connection) }
            // The last connection brings all that the write-ahead log has into the file.
            connection = nil
            return try Data(contentsOf: URL(filePath: path))
        } catch {
            preconditionFailure("no database in memory: \(error)")
        }
    }()

    private static func open(_ path: String) throws(SQLFault) -> SQLiteConnection {
        let connection = try SQLiteConnection(path: path, isReader: false)
        _ = try connection.run("PRAGMA synchronous = OFF", [])
        return connection
    }

    private static func newPath() -> String {
        (FileManager.default.isWritableFile(atPath: "/dev/shm") ? "/dev/shm" : "/tmp") + "/tollgate-memory-" + Foundation.UUID().uuidString
    }

    private static func remove(_ path: String) {
        for name in [path, path + "-wal", path + "-shm"] { try? FileManager.default.removeItem(atPath: name) }
    }

    func read<Value: Sendable>(
        isBrief: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        if Value.self == (ChangeReading, [String]).self, let fault = controls.withLock({ $0.readingFaults.popLast() }) { throw fault }
        return try run(isWriting: false, body)
    }

    func commit<Value: Sendable>(
        locking row: LockedRow?, isDurable: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value { try run(isWriting: true, body) }

    private func run<Value: Sendable>(
        isWriting: Bool, _ body: (inout SQLTransaction) throws(SQLFault) -> Value
    ) throws(StoreFault) -> Value {
        let fault = controls.withLock { controls in
            controls.calls += 1
            return controls.faults.isEmpty ? nil : controls.faults.removeFirst()
        }
        defer {
            controls.withLock { controls in
                defer { controls.follower = nil }; return controls.follower
            }?()
        }
        if let fault { throw fault }
        do throws(SQLFault) {
            return try turn.withLock { _ throws(SQLFault) in try connection.transaction(isWriting: isWriting, body) }
        } catch {
            if case .banned(let ban) = error { throw .banned(ban) }
            throw .failed(error.reason)
        }
    }

    func prepare() async throws(StoreFault) {}
    func close() {}
}
