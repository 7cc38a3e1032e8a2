package import Gate
package import Wire

/// `GCRA.take` as a Lua script in Redis: one clock for all gateways, several counts per charge and several charges per
/// command. `GCRA` is its oracle: tests run both on the same input.
///
///     KEYS   one per count, charge by charge
///     ARGV   per run of equal charges: number of charges, want, counts per charge, then per count its interval and
///            tolerance in microseconds
///     reply  decimal numbers in one string: seconds and microseconds of the server's clock, then per charge the grants
///            and the TAT of each count
///
/// A charge is granted what its strictest count allows, up to `want`, on all of its counts. Charges of one command see the
/// grants of those before them. A count is stored as a decimal TAT and expires when the full burst is available again.
///
/// Numbers are doubles, exact up to 2^53. The clock stays below 2^52 until 2112 and a tolerance below 2^50, so the sum of
/// one time and two tolerances is exact. floor(a / b) of integers is exact while a + b < 2^53, because a quotient below an
/// integer differs from it by more than the rounding error. The source uses only what Lua 5.1 to 5.4 share; it needs Redis 5
/// or a compatible server.
package enum GCRAScript {
    /// Script name in log lines.
    package static let name = "take"

    /// The source as it is loaded.
    package static let source = source(clock: "local time = call('TIME')")

    /// The source with `clock` as the line that sets `time`, a list of seconds and microseconds since 1970 as strings; tests
    /// pass a fixed time.
    ///
    /// A stored value that cannot be a TAT (not a whole number, beyond the tolerance, another type) is treated as an
    /// exhausted count and overwritten: the caller waits one interval, and no window exceeds its bound. A server clock that
    /// steps backwards has the same effect.
    ///
    /// The script runs on the one thread that all gateways share, so it reuses strings that it already has, converts the
    /// numbers of a run once, and formats an expiry again only if it differs from the previous one.
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

    /// Maximum charges per command. The server does nothing else meanwhile, some 10 µs per count.
    package static let maxCharges = 32

    /// Length of a Redis key in bytes.
    package static var keyLength: Int { 44 }

    /// Writes the Redis key of a count. It is a keyed hash, so it does not reveal the subject.
    package static func writeKey(_ key: LimitKey, into out: inout ByteBuffer) {
        out.append("tollgate:rl:" as StaticString)
        out.append(hex: key.high, digits: 16)
        out.append(hex: key.low, digits: 16)
    }

    /// Length of a key in a Redis Cluster.
    package static func keyLength(_ tag: HashTag) -> Int { keyLength + tag.length }

    /// Writes the key of a count in a Redis Cluster: `tollgate:{b17}rl:…`.
    package static func writeKey(_ key: LimitKey, _ tag: HashTag, into out: inout ByteBuffer) {
        out.append("tollgate:" as StaticString)
        tag.write(into: &out)
        out.append("rl:" as StaticString)
        out.append(hex: key.high, digits: 16)
        out.append(hex: key.low, digits: 16)
    }
}

/// The script's reply for one charge.
package struct GCRAReply: Equatable, Sendable {
    /// From 0 to the number requested.
    package var granted: UInt32
    /// Server time of the charge, in microseconds since 1970.
    package var at: UInt64
    /// TAT of each count on the server's clock, at or after `at`, in the order of the charge; unused ones are 0.
    package var tats: PerCount<UInt64>

    /// Nothing granted, no counts.
    package init() {
        granted = 0
        at = 0
        tats = InlineArray(repeating: 0)
    }

    /// Parses the reply to a call with one charge of `counts` counts; nil if it is malformed.
    package init?(counts: Int, _ text: RawSpan) {
        guard var replies = GCRAReplies(text), let reply = replies.next(counts: counts, text), replies.isAtEnd else {
            return nil
        }
        self = reply
    }

    /// The state of count `index` under `rate`. A TAT beyond the rate's tolerance, which no script leaves, counts as exhausted: a wrong
    /// reply refuses for one interval, and not for the years that it says.
    package func reading(_ index: Int, _ rate: LimitRate) -> LimitReading {
        LimitReading(tat: min(tats[index], at &+ rate.storedTolerance), rate, at: at)
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.granted == right.granted && left.at == right.at
            && (0..<LimitCharge.room).allSatisfy { left.tats[$0] == right.tats[$0] }
    }
}

/// Parser of a reply, charge by charge. Each call takes the text again, because a span cannot be stored.
package struct GCRAReplies: Sendable {
    private let at: UInt64
    private var offset: Int
    /// Whether the whole text was read.
    package private(set) var isAtEnd = false

    /// nil if the text does not begin with a valid time.
    package init?(_ text: RawSpan) {
        var numbers = DecimalReader(text)
        guard let seconds = numbers.next(), let microseconds = numbers.next(), seconds < 10_000_000_000, microseconds < 1_000_000,
            !numbers.isAtEnd
        else { return nil }
        at = seconds * 1_000_000 + microseconds
        offset = numbers.offset
    }

    /// The next charge's reply, of `counts` counts, from the same `text`; nil if it is malformed.
    package mutating func next(counts: Int, _ text: RawSpan) -> GCRAReply? {
        guard !isAtEnd, counts <= LimitCharge.room else { return nil }
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
