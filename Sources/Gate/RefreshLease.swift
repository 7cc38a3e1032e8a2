import Wire

/// How gateways that share a Redis see to it that one of them alone refreshes a token at an outside auth server.
///
/// A lease has one key. It is taken for a while, under a number that only grows: whoever comes back after their time, and
/// whose number is no longer the lease's, can give no result any more. The result is left for those who wait, and whoever
/// comes a little later, and is then gone.
package enum RefreshLease {
    /// How long a taken lease is held for its taker, in milliseconds: longer than any refresh takes.
    package static let heldMilliseconds = 10_000
    /// How long a result is left: tokens, and a no.
    package static let keptMilliseconds = 10_000
    package static let refusalMilliseconds = 1_000

    /// For faults.
    package static let name = "refresh lease"

    /// KEYS: the lease, the counter of numbers. ARGV: `take`, taker, milliseconds; or `give`, number, result, milliseconds.
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

    /// What the script answers.
    package enum Reply: Equatable, Sendable {
        /// The lease is the asker's, under this number.
        case lead([UInt8])
        /// Somebody else has it.
        case held
        /// Its result.
        case done([UInt8])
        case given
        /// It is somebody else's by now.
        case lost

        /// nil for what the script never says.
        package init?(_ word: RawSpan, _ bytes: RawSpan) {
            if word.equals("lead") {
                self = .lead(bytes.array)
            } else if word.equals("held") {
                self = .held
            } else if word.equals("done") {
                self = .done(bytes.array)
            } else if word.equals("given") {
                self = .given
            } else if word.equals("lost") {
                self = .lost
            } else {
                return nil
            }
        }
    }
}
