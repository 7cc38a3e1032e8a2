import Foundation
import Glibc

/// Stands between gateways and a redis-server, on a port, and makes their line go wrong.
final class RedisRelay: Sendable {
    enum Line: Sendable {
        case open
        /// Takes everything and says nothing.
        case hole
        /// Answers each command with this.
        case refusing(String)
    }

    let line: Watched<Line>
    private let port: Int
    private let server: Upstream

    init(_ redis: Redis) throws {
        let (path, line) = (redis.folder.file("s"), Watched(Line.open))
        self.line = line
        server = try Upstream.raw { client, _ in
            let redis = try Connection(path: path)
            let (answering, asking) = (fcntl(redis.descriptor, F_DUPFD_CLOEXEC, 0), fcntl(client.descriptor, F_DUPFD_CLOEXEC, 0))
            let answers = Background {
                let (redis, client) = (Connection(descriptor: answering), Connection(descriptor: asking))
                // Ended by the end of the other direction, or ends it.
                defer { shutdown(client.descriptor, Int32(SHUT_RDWR)) }
                redis.setTimeout(seconds: 60)
                while true {
                    let bytes = try redis.takeSome()
                    if case .open = line.now { try client.send(bytes) }
                }
            }
            defer { shutdown(redis.descriptor, Int32(SHUT_RDWR)) }
            while true {
                let commands = try client.takeSome()
                switch line.now {
                case .open: try redis.send(commands)
                case .hole: break
                case .refusing(let error): try client.send(String(repeating: error + "\r\n", count: Self.count(commands)))
                }
            }
            withExtendedLifetime(answers) {}
        }
        port = server.port
    }

    /// Each command begins with the number of its words.
    private static func count(_ commands: [UInt8]) -> Int { text(of: commands).components(separatedBy: "\r\n").count { $0.hasPrefix("*") } }

    /// As a setting.
    var setting: String { "REDIS_URL=redis://127.0.0.1:\(port)/0" }
}
