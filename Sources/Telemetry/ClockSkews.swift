package import Wire

/// Clock skew against other servers, measured by their `Date` fields, and against the database. A wrong clock rejects valid tokens, and
/// nothing else reveals it.
package struct ClockSkews: Sendable, Equatable {
    /// Microseconds of skew without a warning: `Date` has whole seconds, and answers take time.
    package static let tolerable: Int64 = 5_000_000

    /// Effect of a measurement on the warning.
    package enum Change: Equatable, Sendable { case none, differs, agrees }

    /// Microseconds by which our clock is ahead, per source.
    private(set) var bySource: [String: Int64] = [:]

    package init() {}

    /// Microseconds by which our clock, which shows `now`, is ahead of one that sent `date`; nil if the two are too far apart to tell.
    package static func skew(of date: WallTime, at now: WallTime) -> Int64? {
        // `Date` truncates, by half a second on average.
        let (skew, overflow) = now.microseconds.subtractingReportingOverflow(date.microseconds + 500_000)
        return overflow ? nil : skew
    }

    /// Our clock is ahead of a source's by `skew` microseconds.
    package mutating func read(_ source: String, skew: Int64) -> Change {
        let before = bySource.updateValue(skew, forKey: source) ?? 0
        let (differed, differs) = (before.magnitude > Self.tolerable, skew.magnitude > Self.tolerable)
        return differs == differed ? .none : differs ? .differs : .agrees
    }

    /// Removes all other sources.
    package mutating func keep(_ sources: [String]) { bySource = bySource.filter { sources.contains($0.key) } }
}
