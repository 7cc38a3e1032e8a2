package import Wire

/// How many gateways share one Redis: each announces itself there once a second and is told how many have within the last
/// five. It is what `local` divides rates by and what bounds leases; no bound of a limit rests on it while Redis answers.
///
///     KEYS  the one set          ARGV  this gateway's name, and how long an announcement counts, in milliseconds
///     reply how many there are, this one included
package enum GatewayHeartbeat {
    /// For faults and logs.
    package static let name = "census"
    /// Milliseconds between two announcements.
    package static let interval: UInt64 = 1_000
    /// Milliseconds for which an announcement counts.
    static let life: UInt64 = 5_000

    /// What the server gets. A set whose key holds something else is made anew; one that a clock set back has left in the
    /// future is not believed.
    package static let source = source(
        clock: "local time = redis.call('TIME') local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)")

    /// The script with a line of its own for `now`, in milliseconds.
    static func source(clock: String) -> String {
        """
        \(clock)
        local life = tonumber(ARGV[2])
        local score = string.format('%.0f', now)
        local added = redis.pcall('ZADD', KEYS[1], score, ARGV[1])
        if type(added) == 'table' then
          redis.call('DEL', KEYS[1])
          redis.call('ZADD', KEYS[1], score, ARGV[1])
        end
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - life))
        redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + life), '+inf')
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return redis.call('ZCARD', KEYS[1])
        """
    }

    /// Arguments of a call, of which the first is a key.
    package static let argumentCount = 3

    /// Appends argument `index` of a call by the gateway that drew `id` at its start.
    package static func write(_ index: Int, id: UInt64, into out: inout ByteBuffer) {
        switch index {
        case 0: out.append("tollgate:gateways" as StaticString)
        case 1: out.append(hex: id, digits: 16)
        default: out.append(decimal: life)
        }
    }

    /// The reply as a number of gateways; nil if it is none.
    package static func gateways(_ reply: Int64?) -> UInt32? {
        guard let count = reply.flatMap(UInt32.init(exactly:)), count > 0 else { return nil }
        return count
    }
}
