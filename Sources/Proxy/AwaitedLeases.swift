package import Gate
import Redis
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

/// Takes what the script said; nil if Redis gave no answer. Called on the worker's loop, and must only hand it on.
package typealias LeaseReply = @Sendable (RefreshLease.Reply?) -> Void

/// Leases that the control plane asks Redis for, over the connection of one worker.
extension Worker {
    mutating func callLease(_ call: LeaseCall, _ reply: @escaping LeaseReply) {
        guard shared != nil, shared!.ask(call, reply, now.monotonic) else { return reply(nil) }
    }
}

extension SharedCounting {
    /// Marks the tags of these calls: no queue of the ledger has this number.
    private static let leaseMark: UInt64 = 0x8000_0001

    static func isLease(_ tag: UInt64) -> Bool { tag & 0xFFFF_FFFF == leaseMark }

    /// False if it cannot be asked now.
    mutating func ask(_ call: LeaseCall, _ reply: @escaping LeaseReply, _ now: MonotonicTime) -> Bool {
        lastAsked &+= 1
        let tag = UInt64(lastAsked) << 32 | Self.leaseMark
        command.begin(lease, keys: call.keys.count)
        for word in call.keys + call.arguments { command.append(word.rawBytes) }
        guard redis.append(command, tag: tag, now) == .accepted else { return false }
        awaitedLeases[tag] = reply
        return true
    }

    /// The answer to a call has come, or none will.
    mutating func leaseEnded(_ tag: UInt64, isAnswered: Bool) {
        guard let reply = awaitedLeases.removeValue(forKey: tag) else { return }
        reply(isAnswered ? RefreshLease.Reply(redis.reader.reply.bytes(1), redis.reader.reply.bytes(2)) : nil)
    }

    /// Nobody will be asked any more: whoever waits is told so.
    mutating func forgetLeases() {
        for reply in awaitedLeases.values { reply(nil) }
        awaitedLeases = [:]
    }
}
