import Foundation
import Synchronization

/// PgBouncer in transaction mode before a PostgreSQL server, on a Unix socket.
public final class PostgresPooler: Sendable {
    private let folder: String
    private let watch: Mutex<FileHandle?>

    /// Shares `connections` server connections among its clients.
    public init(before server: PostgresCluster, connections: Int) throws {
        let watched = try WatchedFolder(PostgresCluster.path + Self.script, server.path, String(connections))
        folder = watched.path
        watch = Mutex(watched.hold)
    }

    deinit { end() }

    /// Ends the pooler.
    public func end() {
        watch.withLock { handle in
            // The pipe is closed already; the shell ends the pooler either way.
            try? handle?.close()
            handle = nil
        }
    }

    /// The URL of a database of the server, through the pooler.
    public func url(_ database: String) -> String { PostgresCluster.url([folder], database) }

    private static let script = """
        \(PostgresCluster.beginning)
        PATH="$PATH:/usr/sbin"
        cat >"$folder/pgbouncer.ini" <<END
        [databases]
        * = host=$1 port=\(PostgresCluster.port)
        [pgbouncer]
        listen_addr =
        listen_port = \(PostgresCluster.port)
        unix_socket_dir = $folder
        auth_type = any
        pool_mode = transaction
        default_pool_size = $2
        max_client_conn = 200
        logfile = $folder/log
        END
        sed -i "s/^\\* = /&user=tollgate /" "$folder/pgbouncer.ini"
        $as pgbouncer -q "$folder/pgbouncer.ini" >/dev/null 2>&1 </dev/null &
        pooler=$!
        trap 'kill "$pooler" || true; wait "$pooler" || true; rm -rf "$folder"' EXIT
        trap 'exit 1' HUP INT TERM
        # The flag of a socket that listens.
        until grep -q " 00010000 .* $folder/.s.PGSQL.\(PostgresCluster.port)\\$" /proc/net/unix; do
            kill -0 "$pooler"
            sleep 0.05
        done
        echo "$folder"
        exec >/dev/null
        while read -r command; do :; done
        """
}
