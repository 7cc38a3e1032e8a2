package import Wire

/// `GCRA.take` as a script that runs inside Redis: for all gateways at once, by the one clock that they share, for several
/// counts in one step, and for several charges in one command. `GCRA` is the oracle: the tests hold the two against each
/// other.
///
///     KEYS   one for each count, charge by charge
///     ARGV   for each run of charges alike: how many they are, want, how many counts each has, and then of each count its
///            interval and tolerance in microseconds
///     reply  one text of numbers in decimal: the time it was in seconds and microseconds, then for each charge what was
///            granted and the TAT of each count
///
/// What a charge is granted is what the strictest of its counts has left, up to `want`, and it is taken from all of them;
/// what is not granted costs nothing in any. A charge counts what those before it in the command have taken. A count is a TAT
/// in decimal and lives until it is full again, when it is worth nothing.
///
/// Numbers are doubles, exact up to 2^53. The clock stays below 2^52 until the year 2112 and a tolerance below 2^50, so
/// every sum of one time and two tolerances is exact; and floor(a / b) of whole numbers is exact where a + b < 2^53, for
/// then a quotient below a whole number lies further from it than it is rounded. The text is the common ground of Lua 5.1
/// to 5.4, and needs Redis 5 or newer, or what speaks like it.
package enum GCRAScript {
    /// For faults and logs.
    package static let name = "take"

    /// What the server gets.
    package static let source = source(clock: "local time = call('TIME')")

    /// The script with a line of its own for `time`, a list of the seconds and microseconds since 1970, as texts.
    ///
    /// A value that no count of ours can have (no whole number, past what the tolerance allows, of another type) is taken
    /// for a count that has nothing left, and is mended: its caller waits one interval, and no window admits more than its
    /// bound whatever was there. A server clock that was set back does no more harm than that either.
    ///
    /// Each word costs all gateways time, for they share the server: texts that are at hand are not made again, numbers that
    /// serve a run of charges are made once, and so is the expiry that one charge has in common with the one before.
    static func source(clock: String) -> String {
        """
        local call, pcall, format, floor = redis.call, redis.pcall, string.format, math.floor
        \(clock)
        local now = time[1] * 1000000 + time[2]
        local reply, said, key, n = {time[1], time[2]}, 2, 0, 1
        local terms, tats, lastLife, life = {}, {}
        while ARGV[n] do
          local want, most, counts = ARGV[n + 1], ARGV[n + 1] + 0, ARGV[n + 2] + 0
          for i = 1, 2 * counts do terms[i] = ARGV[n + 2 + i] + 0 end
          for _ = 1, ARGV[n] + 0 do
            local granted, grants = most, want
            for i = 1, counts do
              local horizon = now + terms[2 * i]
              local value = pcall('GET', KEYS[key + i])
              local tat = now
              if value then
                tat = tonumber(value)
                if not tat or tat % 1 ~= 0 or tat < 0 or tat > horizon then
                  tat = horizon
                  call('SET', KEYS[key + i], format('%.0f', tat), 'PX', floor((tat - now) / 1000) + 2)
                elseif tat < now then
                  tat = now
                end
              end
              tats[i] = tat
              local room = (horizon - tat) / terms[2 * i - 1]
              if room < granted then
                granted = floor(room)
                grants = format('%.0f', granted)
              end
            end
            said = said + 1
            reply[said] = grants
            for i = 1, counts do
              local tat = tats[i] + granted * terms[2 * i - 1]
              local text = format('%.0f', tat)
              if granted > 0 then
                local left = floor((tat - now) / 1000) + 2
                if left ~= lastLife then lastLife, life = left, format('%.0f', left) end
                call('SET', KEYS[key + i], text, 'PX', life)
              end
              reply[said + i] = text
            end
            said = said + counts
            key = key + counts
          end
          n = n + 3 + 2 * counts
        end
        return table.concat(reply, ' ')
        """
    }

    /// Charges of one command at most: nothing else runs in the server meanwhile, some 10 microseconds for each count.
    package static let mostCharges = 32

    /// Bytes of a key.
    package static var keyLength: Int { 44 }

    /// The name of a count in the server: a hash, from which nobody learns whom it is about.
    package static func writeKey(_ key: LimitKey, into out: inout ByteBuffer) {
        out.append("tollgate:rl:" as StaticString)
        out.append(hex: key.high, digits: 16)
        out.append(hex: key.low, digits: 16)
    }
}

/// What the script answered for one charge.
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

    /// Reads the reply to a call for one charge, of `counts` counts; nil if it is no answer of the script.
    package init?(counts: Int, _ text: RawSpan) {
        guard var replies = GCRAReplies(text), let reply = replies.next(counts: counts, text), replies.isAtEnd else {
            return nil
        }
        self = reply
    }

    /// Where count `index` stands by `rate`.
    package func reading(_ index: Int, _ rate: LimitRate) -> LimitReading { LimitReading(tat: tats[index], rate, at: at) }

    package static func == (left: Self, right: Self) -> Bool {
        left.granted == right.granted && left.at == right.at
            && (0..<LimitCharge.capacity).allSatisfy { left.tats[$0] == right.tats[$0] }
    }
}

/// Reads what the script answered charge by charge. Each step is given the text again, which may not be kept meanwhile.
package struct GCRAReplies: Sendable {
    private let at: UInt64
    private var offset: Int
    /// Whether all has been read.
    package private(set) var isAtEnd = false

    /// nil if the text is no answer of the script.
    package init?(_ text: RawSpan) {
        var numbers = DecimalReader(text)
        guard let seconds = numbers.next(), let microseconds = numbers.next(), seconds < 10_000_000_000, microseconds < 1_000_000,
            !numbers.isAtEnd
        else { return nil }
        at = seconds * 1_000_000 + microseconds
        offset = numbers.offset
    }

    /// The next reply, about `counts` counts, of the `text` that this was made of; nil if what stands there is none.
    package mutating func next(counts: Int, _ text: RawSpan) -> GCRAReply? {
        guard !isAtEnd, counts <= LimitCharge.capacity else { return nil }
        var numbers = DecimalReader(text, from: offset)
        guard let granted = numbers.next().flatMap(UInt32.init(exactly:)) else { return nil }
        var reply = GCRAReply()
        (reply.granted, reply.at) = (granted, at)
        for index in 0..<counts {
            guard let tat = numbers.next(), tat >= at else { return nil }
            reply.tats[index] = tat
        }
        (offset, isAtEnd) = (numbers.offset, numbers.isAtEnd)
        return reply
    }
}
