import Gate
import Redis
import Telemetry
import Transport
import Wire

/// One call of the control plane's script of leases.
package struct LeaseCall: Sendable {
    package let keys: [[UInt8]]
    package let arguments: [[UInt8]]

    package init(keys: [[UInt8]], arguments: [[UInt8]]) {
        self.keys = keys
        self.arguments = arguments
    }
}

/// A question of the control plane that is under way.
struct AwaitedReply {
    enum Question {
        /// A charge of these counts.
        case take([LimitCharge.Item], TakeReply)
        /// One count of a charge in a cluster, by its index.
        case part(ClusterTake, Int)
        /// No receiver: a charge that is not returned stays.
        case refund([LimitCharge.Item], chargedAt: UInt64)
        case lease(LeaseCall, LeaseReply)
    }

    let question: Question
    /// Where its keys lie in a cluster.
    let tag: HashTag
    /// Whether it may be sent to another node; once.
    var mayMove = true
}

/// Receives the script's reply to a charge; nil for none. Called on the worker's loop, and must not block it.
package typealias TakeReply = @Sendable (GCRAReply?) -> Void
/// Receives the lease script's reply; nil for none. Called as the other one is.
package typealias LeaseReply = @Sendable ((word: [UInt8], value: [UInt8])?) -> Void

/// A charge of the control plane over the nodes of a cluster, one call a count. It is granted if each count grants it; what the others
/// granted is given back. Belongs to the worker's loop.
final class ClusterTake {
    let items: [LimitCharge.Item]
    private let reply: TakeReply
    private(set) var replies: [GCRAReply?]
    private var left: Int

    init(_ items: [LimitCharge.Item], _ reply: @escaping TakeReply) {
        self.items = items
        self.reply = reply
        replies = items.map { _ in nil }
        left = items.count
    }

    /// Count `index` has its reply, or gets none. Returns the counts to give back once all have one; nil before.
    func ended(_ index: Int, _ answer: GCRAReply?) -> [Int]? {
        replies[index] = answer
        left -= 1
        guard left == 0 else { return nil }
        let answers = replies.compactMap(\.self)
        guard answers.allSatisfy({ $0.granted > 0 }) else {
            reply(joined(granted: 0))
            return items.indices.filter { (replies[$0]?.granted ?? 0) > 0 }
        }
        guard answers.count < items.count else {
            reply(joined(granted: 1))
            return []
        }
        // The local counts decide alone, and Redis keeps no charge that could not be given back.
        reply(nil)
        return items.indices.filter { replies[$0] != nil }
    }

    /// On the clock of the node that answered for the first count. A count that grants a charge which is given back, or that did
    /// not answer, has no wait.
    private func joined(granted: UInt32) -> GCRAReply {
        var joined = GCRAReply()
        joined.granted = granted
        joined.at = replies.compactMap(\.self).map(\.at).min() ?? 0
        for (index, reply) in replies.enumerated() {
            guard let reply, granted > 0 || reply.granted == 0 else {
                joined.tats[index] = joined.at
                continue
            }
            joined.tats[index] = joined.at + (reply.tats[0] - reply.at)
        }
        return joined
    }
}

/// Commands of the control plane over the Redis connection of one worker: counts of attempts at accounts, leases of
/// refreshes. They are few, and no request waits for them on the loop, so they bypass the limit client. The reply closures get nil if
/// Redis cannot be asked.
extension SharedCounting {
    /// Low half of these questions' tags: no queue of the limit client and no call of a cluster has this number.
    private static let mark: UInt64 = 0x8000_0000

    static func isAsked(_ tag: UInt64) -> Bool { tag & 0xFFFF_FFFF == mark }

    /// Charges one on each of these counts, or on none.
    mutating func ask(_ items: [LimitCharge.Item], _ reply: @escaping TakeReply, _ now: MonotonicTime) {
        guard isCluster else {
            if !ask(AwaitedReply(question: .take(items, reply), tag: HashTag(0)), now) { reply(nil) }
            return
        }
        let take = ClusterTake(items, reply)
        for index in items.indices {
            if !ask(AwaitedReply(question: .part(take, index), tag: items[index].tag), now) { partEnded(take, index, nil, now) }
        }
    }

    /// Returns what was charged. If Redis does not take it, the charge stays.
    mutating func refund(_ items: [LimitCharge.Item], chargedAt: UInt64, _ now: MonotonicTime) {
        guard isCluster else {
            _ = ask(AwaitedReply(question: .refund(items, chargedAt: chargedAt), tag: HashTag(0)), now)
            return
        }
        for item in items { _ = ask(AwaitedReply(question: .refund([item], chargedAt: chargedAt), tag: item.tag), now) }
    }

    /// Calls the script of leases.
    mutating func ask(_ question: LeaseCall, _ reply: @escaping LeaseReply, _ now: MonotonicTime) {
        let name = question.keys.first ?? []
        let tag = HashTag(of: name.rawBytes)
        if !ask(AwaitedReply(question: .lease(question, reply), tag: tag), now) { reply(nil) }
    }

    private mutating func ask(_ asked: AwaitedReply, _ now: MonotonicTime) -> Bool {
        guard let node = isCluster ? nodes.owner(asked.tag) : 0 else {
            nodes.missed()
            return false
        }
        write(asked)
        lastAsked &+= 1
        let tag = UInt64(lastAsked) << 32 | Self.mark
        guard nodes.append(call, to: node, tag: tag, now) == .accepted else { return false }
        awaited[tag] = asked
        return true
    }

    /// Builds the call.
    private mutating func write(_ asked: AwaitedReply) {
        switch asked.question {
        case .take(let items, _): writeTake(items)
        case .part(let take, let index): writeTake([take.items[index]])
        case .refund(let items, let chargedAt):
            call.begin(refundScript, keys: items.count)
            for item in items { appendKey(item) }
            call.arguments.append(decimal: chargedAt)
            for item in items { call.arguments.append(decimal: item.rate.interval) }
        case .lease(let question, _):
            call.begin(lease, keys: question.keys.count)
            for key in question.keys { appendKey(key, asked.tag) }
            for word in question.arguments { call.arguments.append(word.rawBytes) }
        }
    }

    private mutating func writeTake(_ items: [LimitCharge.Item]) {
        limitCommand.ask(items)
        call.begin(take)
        charges.append(&limitCommand, isTagged: isCluster, to: &call)
        charges.end(&call)
    }

    private mutating func appendKey(_ item: LimitCharge.Item) {
        if isCluster {
            call.arguments.append(byteCount: GCRAScript.keyLength(item.tag)) { GCRAScript.writeKey(item.key, item.tag, into: &$0) }
        } else {
            call.arguments.append(byteCount: GCRAScript.keyLength) { GCRAScript.writeKey(item.key, into: &$0) }
        }
    }

    /// A key of the control plane, `tollgate:…`. In a cluster the hash tag stands behind the prefix.
    private mutating func appendKey(_ key: [UInt8], _ tag: HashTag) {
        guard isCluster else { return call.arguments.append(key.rawBytes) }
        let prefix = key.prefix { $0 != UInt8(ascii: ":") }.count + 1
        var name = ByteBuffer()
        name.append(Array(key.prefix(prefix)))
        tag.write(into: &name)
        name.append(Array(key.dropFirst(prefix)))
        call.arguments.append(name.readable)
    }

    /// The result of a question. Returns the command; nil for an unknown tag, and while the question goes to another node.
    mutating func askedEnded(_ result: RedisResult, _ now: MonotonicTime) -> RedisCommandKind? {
        guard let asked = awaited.removeValue(forKey: result.tag) else { return nil }
        if isCluster, !result.outcome.isAnswered {
            nodes.saw(result.outcome)
            if result.outcome == .refused(.cluster), asked.mayMove, redirected(asked, result.tag, now) { return nil }
        }
        return ended(asked, isAnswered: result.outcome.isAnswered, now)
    }

    /// Sends a question to the node that the reply names; false if there is none.
    private mutating func redirected(_ asked: AwaitedReply, _ tag: UInt64, _ now: MonotonicTime) -> Bool {
        let (redirect, asking): (RedisRedirect, Bool)
        switch RedisClusterError(nodes.bytes(0)) {
        case .moved(let place)?: (redirect, asking) = (place, false)
        case .ask(let place)?: (redirect, asking) = (place, true)
        case .tryAgain?, .crossSlot?, .notServed?, .down?, nil: return false
        }
        guard let node = nodes.node(redirect, now) else { return false }
        if !asking { nodes.moved(asked.tag, to: node) }
        write(asked)
        guard nodes.append(call, redirectedTo: node, at: now, asking: asking, tag: tag, now) == .accepted else { return false }
        awaited[tag] = AwaitedReply(question: asked.question, tag: asked.tag, mayMove: false)
        return true
    }

    private mutating func ended(_ asked: AwaitedReply, isAnswered: Bool, _ now: MonotonicTime) -> RedisCommandKind {
        switch asked.question {
        case .take(let items, let reply):
            reply(isAnswered ? GCRAReply(counts: items.count, nodes.bytes(0)) : nil)
            return .take
        case .part(let take, let index):
            partEnded(take, index, isAnswered ? GCRAReply(counts: 1, nodes.bytes(0)) : nil, now)
            return .take
        case .refund: return .refund
        case .lease(_, let reply):
            reply(isAnswered ? (nodes.bytes(1).array, nodes.bytes(2).array) : nil)
            return .lease
        }
    }

    private mutating func partEnded(_ take: ClusterTake, _ index: Int, _ reply: GCRAReply?, _ now: MonotonicTime) {
        guard let surplus = take.ended(index, reply) else { return }
        for index in surplus { refund([take.items[index]], chargedAt: take.replies[index]?.at ?? 0, now) }
    }

    /// The worker ends: every open question gets no reply.
    mutating func forgetAsked(_ now: MonotonicTime) {
        for tag in Array(awaited.keys) {
            if let asked = awaited.removeValue(forKey: tag) { _ = ended(asked, isAnswered: false, now) }
        }
    }
}
