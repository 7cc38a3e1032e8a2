package import Gate
import Redis
import Telemetry
import Transport
import Wire

/// One call of `RefreshLease`'s script.
package struct LeaseCall: Sendable {
    package let keys: [[UInt8]]
    package let arguments: [[UInt8]]

    package init(keys: [[UInt8]], arguments: [[UInt8]]) {
        self.keys = keys
        self.arguments = arguments
    }
}

/// Receiver of the reply to a question of the control plane; gets nil if Redis gave none. Called on the worker's loop, and must not
/// block it.
enum AwaitedReply: Sendable {
    /// Of a charge of so many counts.
    case take(counts: Int, TakeReply)
    /// No receiver: a charge that is not returned stays.
    case refund
    case lease(LeaseReply)
}

/// Receives the script's reply to a charge; nil for none.
package typealias TakeReply = @Sendable (GCRAReply?) -> Void
/// Receives the lease script's reply; nil for none.
package typealias LeaseReply = @Sendable (RefreshLease.Reply?) -> Void

/// Commands of the control plane over the Redis connection of one worker: counts of attempts at accounts, leases of
/// refreshes. They are few, and no request waits for them on the loop, so they bypass the limit client. The reply closures get nil if
/// Redis cannot be asked.
extension SharedCounting {
    /// Low half of these questions' tags: no queue of the limit client has this number.
    private static let mark: UInt64 = 0x8000_0000

    static func isAsked(_ tag: UInt64) -> Bool { tag & 0xFFFF_FFFF == mark }

    /// Charges one on each of these counts, or on none.
    mutating func ask(_ items: [LimitCharge.Item], _ reply: @escaping TakeReply, _ now: MonotonicTime) {
        limitCommand.ask(items)
        writeTake()
        if !ask(for: .take(counts: items.count, reply), now) { reply(nil) }
    }

    /// Returns what was charged. If Redis does not take it, the charge stays.
    mutating func refund(_ items: [LimitCharge.Item], chargedAt: UInt64, _ now: MonotonicTime) {
        call.begin(refundScript, keys: items.count)
        for item in items {
            call.arguments.append(byteCount: GCRAScript.keyLength) { GCRAScript.writeKey(item.key, into: &$0) }
        }
        call.arguments.append(decimal: chargedAt)
        for item in items { call.arguments.append(decimal: item.rate.interval) }
        _ = ask(for: .refund, now)
    }

    /// Calls `RefreshLease`'s script.
    mutating func ask(_ question: LeaseCall, _ reply: @escaping LeaseReply, _ now: MonotonicTime) {
        call.begin(lease, keys: question.keys.count)
        for word in question.keys + question.arguments { call.arguments.append(word.rawBytes) }
        if !ask(for: .lease(reply), now) { reply(nil) }
    }

    private mutating func ask(for reply: AwaitedReply, _ now: MonotonicTime) -> Bool {
        lastAsked &+= 1
        let tag = UInt64(lastAsked) << 32 | Self.mark
        guard redis.append(call, tag: tag, now) == .accepted else { return false }
        awaited[tag] = reply
        return true
    }

    /// The reply to a question has come, or none will. Returns the command; nil for an unknown tag.
    mutating func askedEnded(_ tag: UInt64, isAnswered: Bool) -> RedisCommandKind? {
        switch awaited.removeValue(forKey: tag) {
        case .take(let counts, let reply):
            reply(isAnswered ? GCRAReply(counts: counts, redis.reader.reply.bytes(0)) : nil)
            return .take
        case .refund: return .refund
        case .lease(let reply):
            reply(isAnswered ? RefreshLease.Reply(redis.reader.reply.bytes(1), redis.reader.reply.bytes(2)) : nil)
            return .lease
        case nil: return nil
        }
    }

    /// The worker ends: every open question gets no reply.
    mutating func forgetAsked() {
        for tag in Array(awaited.keys) { _ = askedEnded(tag, isAnswered: false) }
    }
}
