package import Wire

/// How far this machine's clock is from others', as `Date` fields tell it. A wrong clock refuses tokens for no fault of
/// theirs, and nothing else says so.
package struct ClockSkews: Sendable, Equatable {
    /// Microseconds that nobody needs to be told of: a `Date` is whole seconds, and answers take their time.
    package static let tolerable: Int64 = 5_000_000

    /// What a reading changed.
    package enum Change: Equatable, Sendable { case none, differs, agrees }

    /// Microseconds by which our clock was last ahead of each source's.
    private(set) var bySource: [String: Int64] = [:]

    package init() {}

    /// A source said that it was `date` when our clock said `now`.
    package mutating func read(_ source: String, date: WallTime, at now: WallTime) -> Change {
        // On average half of a second has passed since a whole one.
        let (skew, overflow) = now.microseconds.subtractingReportingOverflow(date.microseconds + 500_000)
        guard !overflow else { return .none }
        let before = bySource.updateValue(skew, forKey: source) ?? 0
        let (differed, differs) = (before.magnitude > Self.tolerable, skew.magnitude > Self.tolerable)
        return differs == differed ? .none : differs ? .differs : .agrees
    }

    /// Microseconds by which our clock was last ahead; nil if the source was never read.
    package func microseconds(_ source: String) -> Int64? { bySource[source] }

    /// Forgets all other sources.
    package mutating func keep(_ sources: [String]) { bySource = bySource.filter { sources.contains($0.key) } }
}
