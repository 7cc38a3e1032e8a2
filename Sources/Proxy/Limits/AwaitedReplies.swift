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

/// Who waits for the answer to a question of the control plane, and gets nil if Redis gave none. Called on the worker's
/// loop, and must only hand it on.
enum AwaitedReply: Sendable {
    /// The answer to a charge of so many counts.
    case take(counts: Int, TakeReply)
    /// Nobody waits: what is not given back stays charged.
    case refund
    case lease(LeaseReply)
}

/// Takes what the script answered to a charge.
package typealias TakeReply = @Sendable (GCRAReply?) -> Void
/// Takes what the script said.
package typealias LeaseReply = @Sendable (RefreshLease.Reply?) -> Void

/// What the control plane asks Redis for over the connection of one worker: counts of attempts at accounts, leases of
/// refreshes. They are few, and no request waits for them on the loop, so they go past the limit client.
extension Worker {
    /// Charges one on each of these counts, or on none.
    mutating func take(_ items: [LimitCharge.Item], _ reply: @escaping TakeReply) {
        guard shared != nil, shared!.ask(items, reply, now.monotonic) else { return reply(nil) }
    }

    /// If Redis does not take it, the charge stays.
    mutating func refund(_ items: [LimitCharge.Item], chargedAt: UInt64) {
        if shared != nil { shared!.refund(items, chargedAt: chargedAt, now.monotonic) }
    }

    mutating func callLease(_ call: LeaseCall, _ reply: @escaping LeaseReply) {
        guard shared != nil, shared!.ask(call, reply, now.monotonic) else { return reply(nil) }
    }
}

extension SharedCounting {
    /// Marks the tags of these questions: no queue of the limit client has this number.
    private static let mark: UInt64 = 0x8000_0000

    static func isAsked(_ tag: UInt64) -> Bool { tag & 0xFFFF_FFFF == mark }

    /// False if it cannot be asked now.
    mutating func ask(_ items: [LimitCharge.Item], _ reply: @escaping TakeReply, _ now: MonotonicTime) -> Bool {
        limitCommand.ask(items)
        writeTake()
        return ask(for: .take(counts: items.count, reply), now)
    }

    mutating func refund(_ items: [LimitCharge.Item], chargedAt: UInt64, _ now: MonotonicTime) {
        call.begin(refundScript, keys: items.count)
        for item in items {
            call.arguments.append(byteCount: GCRAScript.keyLength) { GCRAScript.writeKey(item.key, into: &$0) }
        }
        call.arguments.append(decimal: chargedAt)
        for item in items { call.arguments.append(decimal: item.rate.interval) }
        _ = ask(for: .refund, now)
    }

    mutating func ask(_ question: LeaseCall, _ reply: @escaping LeaseReply, _ now: MonotonicTime) -> Bool {
        call.begin(lease, keys: question.keys.count)
        for word in question.keys + question.arguments { call.arguments.append(word.rawBytes) }
        return ask(for: .lease(reply), now)
    }

    private mutating func ask(for reply: AwaitedReply, _ now: MonotonicTime) -> Bool {
        lastAsked &+= 1
        let tag = UInt64(lastAsked) << 32 | Self.mark
        guard redis.append(call, tag: tag, now) == .accepted else { return false }
        awaited[tag] = reply
        return true
    }

    /// The answer to a question has come, or none will. Answers what was called; nil if nobody waits.
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

    /// Nobody will be asked any more: whoever waits is told so.
    mutating func forgetAsked() {
        for reply in awaited.values {
            switch reply {
            case .take(_, let reply): reply(nil)
            case .refund: continue
            case .lease(let reply): reply(nil)
            }
        }
        awaited = [:]
    }
}
