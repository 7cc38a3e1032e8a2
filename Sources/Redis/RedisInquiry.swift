internal import Threads
internal import Transport
package import Wire

/// A few commands to one server, once, on the calling thread.
package enum RedisInquiry {
    package enum Answer: Equatable, Sendable {
        /// The strings and numbers of the reply in their order, nulls as empty ones.
        case values([String])
        /// The server's error.
        case error(String)
        /// The connection ended, or its time, before the reply.
        case none
    }

    /// Why no command could be sent.
    package struct Fault: Error, Sendable {
        package let reason: String
        /// Whether it is a Redis without TLS, and the endpoint demands it.
        package var speaksNoTLS = false
        /// Whether it may be one.
        var mayLackTLS = false

        package init(reason: String) { self.reason = reason }
    }

    /// Connects to a single server, at the first of `addresses` that accepts, and sends all commands at once; returns an answer for
    /// each. Blocks for up to `milliseconds` an address, and a second more where a server may speak no TLS.
    package static func ask(
        _ endpoint: RedisEndpoint, addresses: [SocketAddress], _ commands: [[String]], milliseconds: UInt64
    ) throws(Fault) -> [Answer] {
        var last = Fault(reason: "its name has no address")
        for address in addresses {
            do {
                return try run(endpoint, address, commands, milliseconds)
            } catch {
                last = (error as? Fault) ?? Fault(reason: "\(error)")
                last.speaksNoTLS = last.mayLackTLS && answersWithoutTLS(address)
            }
        }
        throw last
    }

    /// Whether a Redis without TLS is there: it answers PING, if only that it demands a password. No password is sent.
    private static func answersWithoutTLS(_ address: SocketAddress) -> Bool {
        let endpoint = RedisEndpoint(topology: .single(.host("", port: 0)), usesTLS: false)
        // If this fails, too, the fault that was found first stands.
        guard let answers = try? run(endpoint, address, [["PING"]], 1_000) else { return false }
        switch answers[0] {
        case .values(["PONG"]): return true
        case .error(let text): return text.hasPrefix("NOAUTH ") || text.hasPrefix("DENIED ")
        case .values, .none: return false
        }
    }

    private static func run(
        _ endpoint: RedisEndpoint, _ address: SocketAddress, _ commands: [[String]], _ milliseconds: UInt64
    ) throws -> [Answer] {
        var now = EventLoop.now().monotonic
        let deadline = now.advanced(milliseconds: milliseconds)
        var settings = RedisConnectionSettings()
        (settings.replyDeadline, settings.responseTimeout, settings.connectTimeout) = (milliseconds, milliseconds, milliseconds)
        let tls = endpoint.usesTLS ? try TLSClientContext(protocols: []) : nil
        var loop = try EventLoop()
        var connection = RedisConnection(endpoint, addresses: [address], tls: tls, settings: settings, token: 1, seed: 1, now: now)
        var answers = [Answer](repeating: .none, count: commands.count)
        var (isAsked, missing) = (false, commands.count)
        while missing > 0 {
            connection.timedOut(now, loop)
            while let result = connection.next(now) {
                missing -= 1
                answers[Int(result.tag)] = answer(result.outcome, connection.reader.reply)
            }
            if isAsked, !connection.isReady { break }
            if !isAsked {
                if case .down(let down) = connection.condition {
                    var fault = Fault(reason: "\(down)")
                    fault.mayLackTLS = down.hintsAtNoTLS
                    throw fault
                }
                if case .refusing(_, let text) = connection.condition { throw Fault(reason: text) }
            }
            if !isAsked, connection.isReady {
                isAsked = true
                for (number, words) in commands.enumerated() { append(words, UInt64(number), &connection, now) }
            }
            connection.flush(now, loop)
            guard missing > 0, now < deadline else { break }
            let ready = loop.wait(milliseconds: 20)
            now = EventLoop.now().monotonic
            for index in 0..<ready where loop.ready(index).token == 1 { connection.ready(loop.ready(index), now, loop) }
        }
        connection.close(now)
        guard isAsked else { throw Fault(reason: "it did not answer within \(milliseconds) ms") }
        return answers
    }

    private static func append(_ words: [String], _ tag: UInt64, _ connection: inout RedisConnection, _ now: MonotonicTime) {
        var command = RedisCommand()
        command.begin()
        for word in words { command.append { $0.append(word) } }
        // Few commands on a new connection: each is accepted.
        _ = connection.append(command, tag: tag, now)
    }

    private static func answer(_ outcome: RedisOutcome, _ reply: borrowing RedisReply) -> Answer {
        switch outcome {
        case .answered: .values((0..<reply.nodes.count).compactMap { value($0, reply) })
        case .refused: .error(reply.errorText ?? "")
        case .late, .lost: .none
        }
    }

    private static func value(_ index: Int, _ reply: borrowing RedisReply) -> String? {
        switch reply.nodes[index] {
        case .integer(let number): "\(number)"
        case .status, .error, .bulk: reply.bytes(index).text
        case .null: ""
        case .array: nil
        }
    }
}
