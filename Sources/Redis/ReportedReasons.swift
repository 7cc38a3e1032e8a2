/// The reasons of one outage that were told: a server that hangs gives several in turn, again and again, and each is told once.
package struct ReportedReasons: Equatable, Sendable {
    /// Reasons of one outage that are told at most. A server may write any text.
    private static let most = 8

    private var reasons: [String] = []
    /// The newest one; nil while all is well.
    package var latest: String? { reasons.last }

    package init() {}

    /// Whether to tell of this reason, or with nil of the end of the outage.
    package func isNew(_ reason: String?) -> Bool {
        guard let reason else { return !reasons.isEmpty }
        return reasons.count < Self.most && !reasons.contains(reason)
    }

    /// It was told, and is not new again before the outage is over.
    package mutating func told(_ reason: String?) {
        if let reason { reasons.append(reason) } else { reasons = [] }
    }
}
