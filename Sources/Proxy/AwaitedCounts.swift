package import Gate
import Redis
import Transport
import Wire

/// Takes the answer to a question about one count; nil if Redis gave none. Called on the worker's loop, and must only hand
/// it on.
package typealias CountReply = @Sendable (LimitReading?) -> Void

/// Counts that the control plane asks Redis about, over the connection of one worker: attempts at accounts. They are few,
/// and no request waits for them on the loop, so they go past the ledger.
extension Worker {
    /// Takes up to `want` from a count, or looks at it where that is 0.
    mutating func count(_ item: LimitCharge.Item, want: UInt32, _ reply: @escaping CountReply) {
        guard shared != nil, shared!.ask(item, want: want, reply, now.monotonic) else { return reply(nil) }
    }
}

extension SharedCounting {
    /// Marks the tags of these questions: no queue of the ledger has this number.
    private static let askedMark: UInt64 = 0x8000_0000

    static func isAsked(_ tag: UInt64) -> Bool { tag & 0xFFFF_FFFF == askedMark }

    /// False if it cannot be asked now.
    mutating func ask(_ item: LimitCharge.Item, want: UInt32, _ reply: @escaping CountReply, _ now: MonotonicTime) -> Bool {
        lastAsked &+= 1
        let tag = UInt64(lastAsked) << 32 | Self.askedMark
        limitCommand.ask(item, want: want)
        command.begin(take, keys: 1)
        for index in 0..<limitCommand.argumentCount { command.append { limitCommand.write(index, into: &$0) } }
        guard redis.append(command, tag: tag, now) == .accepted else { return false }
        asked[tag] = reply
        return true
    }

    /// The answer to a question has come, or none will.
    mutating func askedEnded(_ tag: UInt64, isAnswered: Bool) {
        guard let reply = asked.removeValue(forKey: tag) else { return }
        let answer = isAnswered ? takeReply(counts: 1) : nil
        reply(answer.map { $0.readings[0] })
    }

    /// Nobody will be asked any more: whoever waits is told so.
    mutating func forgetAsked() {
        for reply in asked.values { reply(nil) }
        asked = [:]
    }
}
