internal import Wire

/// When addresses of an upstream are ejected and how they come back, and its bounds on requests and retries: the options of an upstream
/// line that begin with `eject-`, `max-` and `retry-`, `panic=` and `slow-start=`. Times are in milliseconds.
package struct UpstreamLimits: Hashable, Sendable {
    /// The bound on the time to a response (`eject-latency=`): so many times the other addresses' median, or so many milliseconds.
    package enum Latency: Hashable, Sendable {
        case factor(Int)
        case milliseconds(UInt32)
    }

    /// Failures in a row that eject an address; nil for none.
    package var ejectFailures: Int? = 5
    /// The first ejection; also the window of shares and times.
    package var ejectAfterMilliseconds: UInt32 = 10_000
    /// Percentage of the addresses that may be ejected at a time.
    package var ejectMax = 10
    /// Percentage of successes below which an address is ejected; nil for none.
    package var ejectSuccess: Int? = 85
    package var ejectLatency: Latency?
    /// Percentage of available addresses below which all are used.
    package var panic = 50
    package var slowStartMilliseconds: UInt32 = 0
    /// Requests of all workers under way, and those that wait for a connection; nil for no bound.
    package var maxRequests: Int?
    package var maxPending: Int?
    /// Retries for a hundred requests.
    package var retryPercent = 20
    /// Retries under way below which another may always be made.
    package var retryMin = 3
}

extension LineOption {
    package static let upstreamLimits: [LineOption] = [
        LineOption("eject-failures", "5 or off", "the number of failures in a row that eject an address: no response, 502, 503, 504, or `UNAVAILABLE` of gRPC"),
        LineOption("eject-after", "10s", "the time of the first ejection, which doubles each time up to 5 minutes; also the window of `eject-success` and `eject-latency`"),
        LineOption("eject-max", "10%", "the share of the addresses that may be ejected at a time, at least one unless it is 0%; one always stays"),
        LineOption("eject-success", "85% or off", "the share of successes in a window below which an address is ejected, if the others are above it"),
        LineOption("eject-latency", "off, 3x or 500ms", "the median time to the head of a response above which an address is ejected: so many times that of the others, or so much while the others are below"),
        LineOption("panic", "50%", "the share of available addresses below which all are used"),
        LineOption("slow-start", "0s", "the time in which the share of an address that is new or comes back rises from a tenth"),
        LineOption("max-requests", "unbounded", "the maximum number of requests of all workers under way; beyond it 503"),
        LineOption("max-pending", "unbounded", "the maximum number of those that wait for a connection; beyond it 503"),
        LineOption("retry-budget", "20%", "the retries that requests earn; ten are saved in each worker"),
        LineOption("retry-min", "3", "the number of retries under way up to which the budget is not asked"),
    ]
}

extension OptionLine {
    /// Reads the options of `LineOption.upstreamLimits`.
    mutating func upstreamLimits() -> UpstreamLimits {
        var limits = UpstreamLimits()
        limits.ejectFailures = unlessOff("eject-failures", limits.ejectFailures) { text throws(ParseError) in
            try TypedText.count(text, 1...1_000)
        }
        if let time = duration("eject-after", 1_000...300_000) { limits.ejectAfterMilliseconds = UInt32(time) }
        if let share = percentage("eject-max") { limits.ejectMax = share }
        limits.ejectSuccess = unlessOff("eject-success", limits.ejectSuccess) { text throws(ParseError) in
            try TypedText.percentage(text, 1...100)
        }
        limits.ejectLatency = unlessOff("eject-latency", limits.ejectLatency, UpstreamLimits.latency)
        if let share = percentage("panic") { limits.panic = share }
        if let time = duration("slow-start", 0...3_600_000) { limits.slowStartMilliseconds = UInt32(time) }
        limits.maxRequests = count("max-requests", 1...1_000_000)
        limits.maxPending = count("max-pending", 1...1_000_000)
        if let share = percentage("retry-budget") { limits.retryPercent = share }
        if let count = count("retry-min", 0...1_000) { limits.retryMin = count }
        return limits
    }

    private mutating func percentage(_ key: String) -> Int? {
        value(key) { text throws(ParseError) in try TypedText.percentage(text, 0...100) }
    }

    /// An option that may be `off`, which is nil.
    private mutating func unlessOff<Value>(
        _ key: String, _ initial: Value?, _ read: (String) throws(ParseError) -> Value
    ) -> Value? {
        text(key) == "off" ? nil : value(key, read) ?? initial
    }
}

extension UpstreamLimits {
    fileprivate static func latency(_ text: String) throws(ParseError) -> Latency {
        if text.hasSuffix("x"), let factor = Int(text.dropLast()), text.utf8.first?.isASCIIDigit == true {
            guard (2...100).contains(factor) else { throw ParseError("is out of range, write a factor from 2x to 100x") }
            return .factor(factor)
        }
        guard DurationText.parse(text) != nil else {
            throw ParseError("is no bound on the time to a response, write off, a factor like 3x or a duration like 500ms")
        }
        return .milliseconds(UInt32(try TypedText.duration(text, 1...600_000)))
    }
}
