package import Wire

/// `GCRA.take` as a script that runs inside Redis: for all gateways at once, by the one clock that they share, and for
/// several counts in one step. `GCRA` is the oracle: the tests hold the two against each other.
///
///     KEYS  one for each count          ARGV  want, then interval and tolerance of each count, in microseconds
///     reply one text: granted, the time it was in seconds and microseconds, then the TAT of each count, in decimal
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
    package static let source = source(clock: "local time = redis.call('TIME')")

    /// The script with a line of its own for `time`, a list of the seconds and microseconds since 1970, as texts.
    ///
    /// A value that no count of ours can have (no whole number, past what the tolerance allows, of another type) is taken
    /// for a count that has nothing left, and is mended: its caller waits one interval, and no window admits more than its
    /// bound whatever was there. A server clock that was set back does no more harm than that either.
    ///
    /// Each word costs all gateways time, for they share the server: texts that are at hand are not made again, and Lua turns
    /// the arguments into numbers by itself.
    static func source(clock: String) -> String {
        """
        \(clock)
        local now = time[1] * 1000000 + time[2]
        local granted, said, tats = ARGV[1] + 0, ARGV[1], {}
        for i = 1, #KEYS do
          local horizon = now + ARGV[2 * i + 1]
          local value = redis.pcall('GET', KEYS[i])
          local tat = now
          if value then
            tat = tonumber(value)
            if not tat or tat % 1 ~= 0 or tat < 0 or tat > horizon then
              tat = horizon
              redis.call('SET', KEYS[i], string.format('%.0f', tat), 'PX', math.floor((tat - now) / 1000) + 2)
            elseif tat < now then
              tat = now
            end
          end
          tats[i] = tat
          local room = (horizon - tat) / ARGV[2 * i]
          if room < granted then
            granted = math.floor(room)
            said = string.format('%.0f', granted)
          end
        end
        local reply = said .. ' ' .. time[1] .. ' ' .. time[2]
        for i = 1, #KEYS do
          local tat = tats[i] + granted * ARGV[2 * i]
          local text = string.format('%.0f', tat)
          if granted > 0 then
            redis.call('SET', KEYS[i], text, 'PX', math.floor((tat - now) / 1000) + 2)
          end
          reply = reply .. ' ' .. text
        end
        return reply
        """
    }

    /// Bytes of a key.
    package static var keyLength: Int { 44 }

    /// The name of a count in the server: a hash, from which nobody learns whom it is about.
    package static func writeKey(_ key: LimitKey, into out: inout ByteBuffer) {
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
    /// The TAT of each count by the same clock, at `at` or later, in the order of the charge; the rest are 0.
    package var tats: InlineArray<4, UInt64>

    /// Nothing granted, and nothing known.
    package init() {
        granted = 0
        at = 0
        tats = InlineArray(repeating: 0)
    }

    /// Reads the reply to a call for `counts` counts; nil if it is no answer of the script.
    package init?(counts: Int, _ text: RawSpan) {
        self.init()
        var numbers = DecimalReader(text)
        guard counts <= LimitCharge.capacity, let granted = numbers.next().flatMap(UInt32.init(exactly:)),
            let seconds = numbers.next(), let microseconds = numbers.next(), seconds < 10_000_000_000, microseconds < 1_000_000
        else { return nil }
        self.granted = granted
        at = seconds * 1_000_000 + microseconds
        for index in 0..<counts {
            guard let tat = numbers.next(), tat >= at else { return nil }
            tats[index] = tat
        }
        guard numbers.isAtEnd else { return nil }
    }

    /// Where count `index` stands by `rate`.
    package func reading(_ index: Int, _ rate: LimitRate) -> LimitReading { LimitReading(tat: tats[index], rate, at: at) }

    package static func == (left: Self, right: Self) -> Bool {
        left.granted == right.granted && left.at == right.at
            && (0..<LimitCharge.capacity).allSatisfy { left.tats[$0] == right.tats[$0] }
    }
}
