import Wire

/// Redis lease with fencing, so that only one gateway refreshes a token at an external auth server.
///
/// A lease is one key with a time to live and a fencing number that only grows. A holder that returns after its lease
/// expired no longer has the current number and cannot store a result. The result stays for the waiting gateways until it
/// expires.
package enum RefreshLease {
    /// Time to live of a lease, in milliseconds; longer than any refresh takes, or a second gateway would send the same token.
    package static let heldMilliseconds = 12_000
    /// Time to live of a result in milliseconds: of tokens, and of a refusal.
    package static let keptMilliseconds = 10_000
    package static let refusalMilliseconds = 1_000

    /// Script name in log lines.
    package static let name = "refresh lease"

    /// KEYS: the lease, the counter of fencing numbers. ARGV: `take`, holder, milliseconds; or `give`, number, result,
    /// milliseconds.
    package static let source: StaticString = """
        local now = redis.call('HMGET', KEYS[1], 'result', 'taker', 'number')
        if ARGV[1] == 'take' then
            if now[1] then return {'done', now[1]} end
            if now[2] == ARGV[2] then return {'lead', now[3]} end
            if now[2] then return {'held', ''} end
            local number = tostring(redis.call('INCR', KEYS[2]))
            redis.call('HSET', KEYS[1], 'taker', ARGV[2], 'number', number)
            redis.call('PEXPIRE', KEYS[1], ARGV[3])
            return {'lead', number}
        end
        if now[3] ~= ARGV[2] then return {'lost', ''} end
        redis.call('HSET', KEYS[1], 'result', ARGV[3])
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        return {'given', ''}
        """

    /// Reply of the script.
    package enum Reply: Equatable, Sendable {
        /// The caller holds the lease, under this number.
        case lead([UInt8])
        /// Another gateway holds it.
        case held
        /// Its result.
        case done([UInt8])
        case given
        /// Another gateway holds it by now; the result was not stored.
        case lost

        /// nil for an unknown reply.
        package init?(word: [UInt8], value: [UInt8]) {
            switch word.rawBytes.text {
            case "lead": self = .lead(value)
            case "held": self = .held
            case "done": self = .done(value)
            case "given": self = .given
            case "lost": self = .lost
            default: return nil
            }
        }
    }
}
