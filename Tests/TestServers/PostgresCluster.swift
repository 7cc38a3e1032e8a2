import Foundation
import Glibc
import Synchronization

/// A PostgreSQL server for the tests: in a temporary folder, on a Unix socket only, not as root.
///
/// A shell watches it by a pipe: however the tests end, it stops the server and removes the folder.
public final class PostgresCluster: Sendable {
    /// The server for all tests, started at first use.
    public static let shared = Result { try PostgresCluster() }

    let folder: String
    private let watch: Mutex<FileHandle?>
    private let databases = Mutex(0)
    static let port = "5432"
    /// A cluster that was made and never started: each server gets a copy, for making one takes a second.
    private static let made = Result { try WatchedFolder(PostgresCluster.path + PostgresCluster.making) }

    /// A server of its own; a standby that follows `primary`, if one is named. `settings` are more of postgresql.conf.
    public init(following primary: PostgresCluster? = nil, settings: [String] = []) throws {
        let options = settings.map { "-c \($0)" }.joined(separator: " ")
        let source = try primary.map { $0.folder } ?? Self.made.get().path
        let watched = try WatchedFolder(Self.path + Self.script, source, primary == nil ? "" : "standby", options)
        folder = watched.path
        watch = Mutex(watched.hold)
    }

    deinit { end() }

    /// Ends the server.
    public func end() {
        watch.withLock { handle in
            // The pipe is closed already; the shell ends the server either way.
            try? handle?.close()
            handle = nil
        }
    }

    /// The URL of a new, empty database.
    public func newDatabase() throws -> String { url(try newDatabaseName()) }

    /// The name of a new, empty database.
    public func newDatabaseName() throws -> String {
        let name = "t\(databases.withLock { $0 += 1; return $0 })"
        try run("CREATE DATABASE \(name)")
        return name
    }

    public func url(_ database: String) -> String { Self.url([folder], database) }

    /// The URL of a database on several servers.
    public static func url(_ database: String, on servers: [PostgresCluster]) -> String { url(servers.map(\.folder), database) }

    /// The URL of a database behind Unix sockets in these folders.
    static func url(_ sockets: [String], _ database: String) -> String {
        let hosts = sockets.map { $0.replacing("/", with: "%2F") + ":" + port }
        return "postgres://tollgate@\(hosts.joined(separator: ","))/\(database)"
    }

    /// The folder with the server's data and socket.
    public var path: String { folder }

    /// Runs one statement as the superuser, with the schema of new installations in the search path.
    @discardableResult
    public func run(_ statement: String, in database: String = "postgres") throws -> String {
        let process = Foundation.Process()
        let output = Pipe()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", Self.path + "exec psql -qAtX -v ON_ERROR_STOP=1 \"$@\"", "psql", "-c", statement, url(database)]
        process.environment = ProcessInfo.processInfo.environment.merging(["PGOPTIONS": "-c search_path=tollgate,public"]) { $1 }
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw ServerFault("psql failed at: \(statement)") }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Kills the server (immediate shutdown).
    public func stop() throws { try signal("stop immediate") }

    public func start() throws { try signal("start") }

    /// Makes a standby the primary.
    public func promote() throws { try signal("promote") }

    /// Suspends and resumes the server (SIGSTOP, SIGCONT).
    public func pause() throws { try signal("pause") }
    public func resume() throws { try signal("resume") }

    /// Sends a command to the watching shell and waits until it is done.
    private func signal(_ command: String) throws {
        let marker = folder + "/done"
        try? FileManager.default.removeItem(atPath: marker)
        watch.withLock { handle in
            if let handle { handle.write(Data((command + "\n").utf8)) }
        }
        for _ in 0..<2_400 {
            if FileManager.default.fileExists(atPath: marker) { return }
            usleep(50_000)
        }
        throw ServerFault("PostgreSQL did not \(command) within two minutes")
    }

    /// Debian's folder of the server's programs, which is not on the PATH.
    static let path = "PATH=\"$(ls -d /usr/lib/postgresql/*/bin | tail -n 1):$PATH\"; "

    /// Runs as root or not: as root, the server gets the user `nobody`, for it refuses to be root.
    static let beginning = """

        set -e
        folder=$(mktemp -d /tmp/tollgate-pg-XXXXXX)
        as=
        if [ "$(id -u)" = 0 ]; then
            chown nobody "$folder"
            as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
        fi

        """

    private static let making = """
        \(beginning)
        trap 'rm -rf "$folder"' EXIT
        trap 'exit 1' HUP INT TERM
        $as initdb -D "$folder/data" -U tollgate -A trust --no-sync --locale=C.UTF-8 >/dev/null
        echo "$folder"
        exec >/dev/null
        while read -r command; do :; done
        """

    private static let script = """
        \(beginning)
        # The server and its children; without it, or where a child has just ended, nothing.
        send() {
            read -r server <"$folder/data/postmaster.pid" || return 0
            # The server first: one that is suspended has no further children.
            kill "$1" "$server" || true
            kill "$1" $(grep -ls "^PPid:[[:space:]]*$server\\$" /proc/[0-9]*/status | cut -d / -f 3) || true
        } 2>/dev/null
        stop() {
            send -CONT
            $as pg_ctl -D "$folder/data" -m "$1" -w stop >/dev/null 2>&1 || true
        }
        start() {
            $as pg_ctl -D "$folder/data" -l "$folder/log" -w -t 100 -o "-c listen_addresses='' \\
                -c unix_socket_directories='$folder' -c port=\(port) -c fsync=off -c max_connections=300 \\
                -c shared_buffers=32MB -c deadlock_timeout=50ms $options" start >/dev/null </dev/null
        }
        trap 'stop immediate; rm -rf "$folder"' EXIT
        trap 'exit 1' HUP INT TERM
        options=$3
        if [ "$2" = standby ]; then
            $as pg_basebackup -D "$folder/data" -R -c fast --no-sync -d "host=$1 port=\(port) user=tollgate" </dev/null
        else
            cp -a "$1/data" "$folder/data"
        fi
        start
        echo "$folder"
        exec >/dev/null
        while read -r command mode; do
            case "$command" in
                stop) stop "$mode" ;;
                start) start ;;
                promote) $as pg_ctl -D "$folder/data" -w promote >/dev/null 2>&1 ;;
                pause) send -STOP ;;
                resume) send -CONT ;;
            esac
            touch "$folder/done"
        done
        """
}

/// A folder that a shell makes and takes away when the pipe to it is closed, whatever becomes of the tests.
final class WatchedFolder: Sendable {
    let path: String
    let hold: FileHandle

    init(_ script: String, _ arguments: String...) throws {
        let ready = Pipe()
        let process = Foundation.Process()
        let hold = Pipe()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", script, "sh"] + arguments
        process.standardInput = hold
        process.standardOutput = ready
        try process.run()
        self.hold = hold.fileHandleForWriting
        // The first line is the folder, or nothing if something failed; what failed is on the tests' own error output.
        var line: [UInt8] = []
        while let byte = try ready.fileHandleForReading.read(upToCount: 1)?.first, byte != 10 { line.append(byte) }
        path = String(decoding: line, as: UTF8.self)
        guard !path.isEmpty else { throw ServerFault("PostgreSQL cannot be started: is the package postgresql-15 installed?") }
    }
}

/// The reason why a test server cannot be started.
public struct ServerFault: Error, CustomStringConvertible {
    public let description: String
    init(_ description: String) { self.description = description }
}
