import Wire

/// The header lines about a limit: `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10) and the
/// `X-RateLimit-` three. What does not change from request to request is rendered once for each rate.
enum LimitHeaders {
    /// All up to the number of what could pass now.
    static func prefix(route: String, _ rate: LimitRate) -> [UInt8] {
        var out = ByteBuffer(capacity: 128)
        out.append("RateLimit-Policy: \"\(route)\";q=\(rate.count);w=\(rate.windowSeconds)\r\n")
        out.append("X-RateLimit-Limit: \(rate.count)\r\n")
        out.append("RateLimit: \"\(route)\";r=")
        return out.readable.array
    }

    /// The rest, behind a prefix.
    static func finish(_ limit: LimitOutcome, _ out: inout ByteBuffer) {
        let remaining = Digits(limit.remaining)
        let reset = Digits(limit.resetSeconds)
        remaining.write(into: &out)
        out.append(";t=" as StaticString)
        reset.write(into: &out)
        out.append("\r\nX-RateLimit-Remaining: " as StaticString)
        remaining.write(into: &out)
        out.append("\r\nX-RateLimit-Reset: " as StaticString)
        reset.write(into: &out)
        out.append("\r\n" as StaticString)
    }

    /// A number in decimal, worked out once for the two places where each stands. Up to eight digits fit a word.
    private struct Digits {
        private let value: UInt32
        private var word: UInt64 = 0
        private var count = 0

        init(_ value: UInt32) {
            self.value = value
            guard value < 100_000_000 else { return }
            var rest = value
            repeat {
                word = word << 8 | UInt64(48 + rest % 10)
                rest /= 10
                count += 1
            } while rest > 0
        }

        func write(into out: inout ByteBuffer) {
            if count > 0 { out.append(lowBytes: word, count: count) } else { out.append(decimal: UInt64(value)) }
        }
    }
}

/// The rates of a policy, ready to be charged: for each route with a limit one for callers without identity, then one
/// for each tier.
struct LimitSheet: Sendable {
    struct Line: Sendable {
        let rate: LimitRate
        /// The policy's half of the key.
        let key: LimitKey
        /// In `texts`.
        let prefix: Slice
    }

    /// Where each route's lines begin; -1 without a limit.
    private var starts: [Int] = []
    private var lines: [Line] = []
    private(set) var texts: [UInt8] = []

    init(_ policy: Policy, _ hash: KeyedHash) {
        for rule in policy.rules {
            guard let limit = rule.limit else {
                starts.append(-1)
                continue
            }
            starts.append(lines.count)
            add(rule.name, limit.anonymous, hash)
            for rank in policy.tiers.names.indices { add(rule.name, limit.rate(of: Tier(rawValue: UInt8(rank))), hash) }
        }
    }

    private mutating func add(_ route: String, _ rate: LimitRate, _ hash: KeyedHash) {
        let prefix = LimitHeaders.prefix(route: route, rate)
        let slice = Slice(start: texts.count, count: prefix.count)
        texts += prefix
        lines.append(Line(rate: rate, key: LimitSubject.policy(route, rate, hash), prefix: slice))
    }

    /// The line of a route with a limit.
    func line(_ route: Int, _ tier: Tier?) -> Line {
        lines[starts[route] + (tier.map { Int($0.rawValue) + 1 } ?? 0)]
    }
}
