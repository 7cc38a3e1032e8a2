import Wire

/// `GCRA.take` as a script that runs inside Redis: for all gateways at once, by the one clock that they share, and for
/// several counts in one step. `GCRA` is the oracle: the tests hold the two against each other.
///
///     KEYS  one for each count          ARGV  want, then interval and tolerance of each count, in microseconds
///     reply granted, then remaining, reset and retry_after of each count, as in `GCRA.Outcome`, then the time it was
///
/// What is granted is what the strictest of the counts has left, up to `want`, and it is taken from all of them; what is
/// not granted costs nothing in any. A count is a TAT in decimal and lives until it is full again, when it is worth nothing.
///
/// Numbers are doubles, exact up to 2^53. The clock stays below 2^52 until the year 2112 and a tolerance below 2^50, so
/// every sum of one time and two tolerances is exact; and floor(a / b) of whole numbers is exact where a + b < 2^53, for
/// then a quotient below a whole number lies further from it than it is rounded. The text is the common ground of Lua 5.1
/// to 5.4, and needs Redis 5 or newer, or what speaks like it.
package enum GCRAScript {
    /// For faults and logs.
    package static let name = "take"

    /// What the server gets.
    package static let source = source(
        clock: "local time = redis.call('TIME') local now = tonumber(time[1]) * 1000000 + tonumber(time[2])")

    /// The script with a line of its own for `now`, in microseconds.
    ///
    /// A value that no count of ours can have (no whole number, past what the tolerance allows, of another type) is taken
    /// for a count that has nothing left, and is mended: its caller waits one interval, and no window admits more than its
    /// bound whatever was there. A server clock that was set back does no more harm than that either.
    static func source(clock: String) -> String {
        """
        \(clock)
        local granted, tats, mended = tonumber(ARGV[1]), {}, {}
        for i = 1, #KEYS do
          local horizon = now + tonumber(ARGV[2 * i + 1])
          local value = redis.pcall('GET', KEYS[i])
          local tat = now
          if value then
            tat = tonumber(value)
            if not tat or tat ~= math.floor(tat) or tat < 0 or tat > horizon then
              tat, mended[i] = horizon, true
            elseif tat < now then
              tat = now
            end
          end
          tats[i] = tat
          granted = math.min(granted, math.floor((horizon - tat) / tonumber(ARGV[2 * i])))
        end
        local reply = {granted}
        for i = 1, #KEYS do
          local interval = tonumber(ARGV[2 * i])
          local reset = tats[i] + granted * interval - now
          if granted > 0 or mended[i] then
            redis.call('SET', KEYS[i], string.format('%.0f', now + reset), 'PX', string.format('%.0f', math.ceil(reset / 1000) + 1))
          end
          local room = tonumber(ARGV[2 * i + 1]) - reset
          local remaining = math.floor(room / interval)
          reply[3 * i - 1], reply[3 * i] = remaining, reset
          reply[3 * i + 1] = remaining > 0 and 0 or interval - room
        end
        reply[3 * #KEYS + 2] = now
        return reply
        """
    }

    /// Arguments of a call for so many counts, keys included.
    static func argumentCount(_ counts: Int) -> Int { 1 + 3 * counts }

    /// Appends argument `index` of a call; the keys come first.
    static func write(_ index: Int, _ charge: inout LimitCharge, want: UInt32, into out: inout ByteBuffer) {
        let number = index - charge.count
        if number < 0 { return writeKey(charge[index].key, into: &out) }
        if number == 0 { return out.append(decimal: UInt64(want)) }
        let rate = charge[(number - 1) / 2].rate
        out.append(decimal: number % 2 == 1 ? rate.interval : rate.storedTolerance)
    }

    /// The name of a count in the server: a hash, from which nobody learns whom it is about.
    static func writeKey(_ key: LimitKey, into out: inout ByteBuffer) {
        out.append("tollgate:rl:" as StaticString)
        out.append(hex: key.high, digits: 16)
        out.append(hex: key.low, digits: 16)
    }
}

/// What the script answered.
package struct GCRAReply: Equatable, Sendable {
    /// 0 to what was wanted.
    package var granted: UInt32
    /// When it was, by the server's clock, in microseconds since 1970.
    package var at: UInt64
    /// A reading for each count, in the order of the charge; the rest are unknown.
    package var readings: InlineArray<4, LimitReading>

    /// Nothing granted, and nothing known.
    package init() {
        granted = 0
        at = 0
        readings = InlineArray(repeating: .unknown)
    }

    /// The most integers that the script answers with.
    package typealias Integers = InlineArray<14, Int64>

    /// Reads the reply to a call for `counts` counts, which has the first `length` of `integers`. nil if it is no answer of the
    /// script.
    package init?(counts: Int, _ integers: Integers, length: Int) {
        self.init()
        guard counts <= LimitCharge.capacity, length == 2 + 3 * counts, let granted = UInt32(exactly: integers[0]),
            let at = UInt64(exactly: integers[length - 1])
        else { return nil }
        self.granted = granted
        self.at = at
        for index in 0..<counts {
            let (reset, wait) = (integers[3 * index + 2], integers[3 * index + 3])
            guard let remaining = UInt32(exactly: integers[3 * index + 1]), reset >= 0, wait >= 0,
                (wait == 0) == (remaining > 0)
            else { return nil }
            readings[index] = LimitReading(remaining: remaining, reset: UInt64(reset), retryAfter: UInt64(wait))
        }
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.granted == right.granted && (0..<LimitCharge.capacity).allSatisfy { left.readings[$0] == right.readings[$0] }
    }
}
