/// Behaviour of limits while Redis does not answer (`TOLLGATE_RATE_LIMIT_FAILURE`).
package enum LimitFailureMode: UInt8, CaseIterable, Sendable {
    /// Counts in this process, by this gateway's share of each rate.
    case local
    /// Admits everything.
    case open
    /// Refuses everything with 503.
    case closed

    /// The name in the settings.
    package var name: String { "\(self)" }
}
