import Gate
package import Wire

/// Heartbeat that counts the live gateways of one Redis: each gateway writes its id to a sorted set once a second, and reads
/// how many did so within five seconds. The failure mode `local` divides rates by that number, and it caps leases. While
/// Redis answers, no limit's bound depends on it.
///
///     KEYS   the sorted set
///     ARGV   this gateway's id, and the lifetime of a heartbeat in milliseconds
///     reply  the number of live gateways, including this one
package enum GatewayHeartbeat {
    /// Script name in log lines, and the metric's label: `census`.
    package static let name = "census"
    /// Milliseconds between two heartbeats.
    package static let interval: UInt64 = 1_000
    /// Milliseconds after which a gateway without a heartbeat is not counted.
    static let life: UInt64 = 5_000

    /// The source as it is loaded. A key of another type is replaced. Entries in the future, left by a clock that was set
    /// back, are removed. Of any other error, like OOM, nothing is deleted: the last number stands.
    package static let source = source(
        clock: "local time = redis.call('TIME') local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)")

    /// The source with `clock` as the line that sets `now`, in milliseconds; tests pass a fixed time.
    static func source(clock: String) -> String {
        """
        \(clock)
        local life = tonumber(ARGV[2])
        local score = string.format('%.0f', now)
        local added = redis.pcall('ZADD', KEYS[1], score, ARGV[1])
        if type(added) == 'table' then
          if not string.find(added.err, 'WRONGTYPE', 1, true) then return added end
          redis.call('DEL', KEYS[1])
          redis.call('ZADD', KEYS[1], score, ARGV[1])
        end
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - life))
        redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + life), '+inf')
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return redis.call('ZCARD', KEYS[1])
        """
    }

    /// Number of arguments of a call; the first is the key.
    package static let argumentCount = 3

    /// Appends argument `index` of a call by the gateway whose random id is `id`. In a cluster the key has a hash tag.
    package static func write(_ index: Int, id: UInt64, tag: HashTag? = nil, into out: inout ByteBuffer) {
        switch index {
        case 0:
            out.append("tollgate:" as StaticString)
            if let tag { tag.write(into: &out) }
            out.append("gateways" as StaticString)
        case 1: out.append(hex: id, digits: 16)
        default: out.append(decimal: life)
        }
    }

    /// The number of gateways in a reply; nil if it is not a positive number.
    package static func gateways(_ reply: Int64?) -> UInt32? {
        guard let count = reply.flatMap(UInt32.init(exactly:)), count > 0 else { return nil }
        return count
    }
}
