import Foundation
import Glibc
import Synchronization

/// A relay before a PostgreSQL server, on a Unix socket, that cuts the connection at a commit.
public final class CommitCutter: Sendable {
    /// What becomes of a commit that is cut.
    public enum Fate: CaseIterable, Sendable {
        /// It reaches the server, and its answer is lost.
        case answered
        /// It never reaches the server.
        case lost
        /// It reaches the server half a second after its sender's connection was cut.
        case late
    }

    private let folder: String
    private let server: String
    private let listener: Int32
    private struct Plan {
        var fates: [Fate] = []
        var meanwhile: (@Sendable () -> Void)?
    }

    private let plan = Mutex(Plan())
    /// Held while `meanwhile` runs: a sender that does not wait so long comes through after it.
    private let passage = Mutex(())
    private let cuts = Mutex(0)

    public init(before server: PostgresCluster) throws {
        var template = Array("/tmp/tollgate-cut-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw ServerFault("no folder in /tmp") }
        folder = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        self.server = Self.socket(server.path)
        listener = try Self.withAddress(Self.socket(folder)) { descriptor, address, length in
            bind(descriptor, address, length) == 0 && listen(descriptor, 64) == 0
        }
        Thread.detachNewThread { [listener, weak self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, let self else { return }
                self.relay(client)
            }
        }
    }

    deinit { end() }

    public func end() {
        shutdown(listener, Int32(SHUT_RDWR))
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// The URL of a database of the server, through the relay.
    public func url(_ database: String) -> String { PostgresCluster.url([folder], database) }

    /// The URL of a database that is on `standby`, too, which comes second.
    public func url(_ database: String, then standby: PostgresCluster) -> String {
        PostgresCluster.url([folder, standby.path], database)
    }

    /// Cuts the next commits. `meanwhile` runs once, when the first of them has met its fate and its sender does not know yet.
    public func cutNext(_ fates: Fate..., meanwhile: (@Sendable () -> Void)? = nil) {
        plan.withLock { $0 = Plan(fates: fates, meanwhile: meanwhile) }
    }

    /// How many commits were cut.
    public var count: Int { cuts.withLock { $0 } }

    private static func socket(_ folder: String) -> String { folder + "/.s.PGSQL." + PostgresCluster.port }

    private static func withAddress(
        _ path: String, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Bool
    ) throws -> Int32 {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isGood = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        guard isGood else { throw ServerFault("no socket at \(path)") }
        return descriptor
    }

    private func relay(_ client: Int32) {
        passage.withLock { _ in }
        guard let upstream = try? Self.withAddress(server, { connect($0, $1, $2) == 0 }) else {
            close(client)
            return
        }
        Thread.detachNewThread {
            Self.copy(from: upstream, to: client) { _ in nil }
            shutdown(client, Int32(SHUT_RDWR))
        }
        Thread.detachNewThread { [self] in
            Self.copy(from: client, to: upstream) { bytes in
                guard String(decoding: bytes, as: UTF8.self).contains("COMMIT") else { return nil }
                let (fate, meanwhile) = plan.withLock { plan in
                    defer { plan.meanwhile = nil }
                    return (plan.fates.isEmpty ? nil : plan.fates.removeFirst(), plan.meanwhile)
                }
                if fate != nil { cuts.withLock { $0 += 1 } }
                return fate.map { fate in
                    {
                        switch fate {
                        case .answered: Self.send(bytes, to: upstream)
                        case .lost: shutdown(upstream, Int32(SHUT_RDWR))
                        case .late: break
                        }
                        if let meanwhile { self.passage.withLock { _ in meanwhile() } }
                        shutdown(client, Int32(SHUT_RDWR))
                        if fate == .late {
                            usleep(500_000)
                            Self.send(bytes, to: upstream)
                        }
                    }
                }
            }
            shutdown(upstream, Int32(SHUT_WR))
        }
    }

    /// Copies until the end, or until `cut` answers how the connection ends.
    private static func copy(from: Int32, to: Int32, cut: ([UInt8]) -> (() -> Void)?) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(from, &buffer, buffer.count)
            guard count > 0 else { return }
            let bytes = Array(buffer[0..<count])
            if let end = cut(bytes) { return end() }
            send(bytes, to: to)
        }
    }

    private static func send(_ bytes: [UInt8], to descriptor: Int32) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            sent += count
        }
    }
}
