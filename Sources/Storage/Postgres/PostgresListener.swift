internal import Accounts
internal import Glibc
internal import Synchronization
internal import Threads

/// Listens for PostgreSQL notifications of changes, on its own connection and thread, and reconnects when the connection is
/// lost. Notifications carry no data; the change log is read after each.
package final class PostgresListener: Sendable {
    /// A connection without notifications for this long is probed, in milliseconds.
    private static let silence: Int32 = 2_000
    private static let firstPause: Int32 = 100
    private static let maxPause: Int32 = 2_000
    private static let pooled =
        "a pooler stands between, which in transaction mode does not pass notifications on: set TOLLGATE_DATABASE_URL_DIRECT to the server itself or to a pooler in session mode, or the log of changes is only polled"

    private let bell: StopSignal
    private let end: ThreadEnd

    /// nil if no thread can be started. `heard` is called for notifications, and after connecting, because earlier notifications
    /// were missed. `changed` is called with the reason when the connection is lost, and with nil when there is one again.
    /// Both run on the listener's thread.
    /// `isDirect`: the URL was given for notifications, so they are taken to come.
    init?(
        url: String, schema: PostgresSchema, isDirect: Bool, primary: DatabasePrimary, start: ThreadStart,
        heard: @escaping @Sendable () -> Void, changed: @escaping @Sendable (String?) -> Void
    ) {
        guard let bell = StopSignal() else { return nil }
        self.bell = bell
        primary.watch { [weak bell] in bell?.wake() }
        let end = start("postgres listener") { Self.run(url, schema, isDirect, primary, bell, heard, changed) }
        guard let end else { return nil }
        self.end = end
    }

    /// Ends the thread and waits for it.
    package func stop() {
        bell.ring()
        end()
    }

    private static func run(
        _ url: String, _ schema: PostgresSchema, _ isDirect: Bool, _ primary: DatabasePrimary, _ bell: StopSignal,
        _ heard: @Sendable () -> Void, _ changed: @Sendable (String?) -> Void
    ) {
        var pause = firstPause
        while !bell.hasRung {
            do throws(SQLFault) {
                let connection = try primary.connect(url, schema)
                if !isDirect, connection.isPooled { throw .failed(pooled) }
                try connection.listen()
                changed(nil)
                heard()
                pause = firstPause
                try follow(connection, primary, bell, heard)
            } catch {
                changed(error.reason)
                bell.wait(milliseconds: pause)
                pause = min(pause * 2, maxPause)
            }
        }
    }

    private static func follow(
        _ connection: PostgresConnection, _ primary: DatabasePrimary, _ bell: StopSignal, _ heard: @Sendable () -> Void
    ) throws(SQLFault) {
        defer { if connection.endsTerm { primary.lost(in: connection.term) } }
        while !bell.hasRung {
            let isReadable = bell.wait(milliseconds: silence, or: connection.descriptor)
            guard primary.term == connection.term else { throw .lost("the connections move to another server") }
            if !isReadable { try connection.probe() }
            if try connection.isNotified() { heard() }
        }
    }
}

/// A self-pipe that wakes a thread in `poll`, and stops it.
private final class StopSignal: Sendable {
    private let reading: Int32
    private let writing: Int32
    private let isRung = Atomic(false)

    init?() {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { return nil }
        (reading, writing) = (ends[0], ends[1])
    }

    deinit {
        close(reading)
        close(writing)
    }

    var hasRung: Bool { isRung.load(ordering: .acquiring) }

    func ring() {
        isRung.store(true, ordering: .releasing)
        wake()
    }

    /// Ends the wait in progress, or the next one.
    func wake() {
        var byte: UInt8 = 1
        _ = unsafe write(writing, &byte, 1)
    }

    /// Waits until the bell rings, the thread is woken, the time is over, or `descriptor` is readable; returns whether it is.
    @discardableResult
    func wait(milliseconds: Int32, or descriptor: Int32 = -1) -> Bool {
        var entries = [
            pollfd(fd: reading, events: Int16(POLLIN), revents: 0), pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        guard unsafe poll(&entries, 2, milliseconds) > 0 else { return false }
        var byte: UInt8 = 0
        if entries[0].revents != 0 { _ = unsafe read(reading, &byte, 1) }
        return entries[1].revents != 0
    }
}
