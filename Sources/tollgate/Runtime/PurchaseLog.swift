internal import Accounts
internal import Telemetry
internal import Wire

extension PurchaseMetrics {
    /// Counts a report. Pure.
    mutating func add(_ report: PurchaseReport, at now: WallTime) {
        switch report {
        case .claim(let source, let verdict, _): claimed(source: source.rawValue, verdict: verdict.rawValue)
        case .event(let source, let type, let verdict, let lag, _):
            notified(source: source.rawValue, type: type, verdict: verdict.name)
            guard verdict != .repeated else { return }
            kept(lagMilliseconds: lag)
            kept(source: source.rawValue, at: now)
        case .refusedEvent(let source, let refusal, _): notified(source: source.rawValue, type: nil, verdict: refusal.rawValue)
        case .fence(let milliseconds, let isEverywhere): fenced(milliseconds: milliseconds, isEverywhere: isEverywhere)
        case .reconciled: break
        case .newestEvents(let times): for (source, time) in times { kept(source: source.rawValue, at: time) }
        }
    }
}

extension ServerLog {
    /// Writes a line for a report that the operator should look at, never with a body, a token or a name of a user. `isCalm`: whether a
    /// line may be written that clients can cause.
    func write(_ report: PurchaseReport, isCalm: () -> Bool) {
        switch report {
        case .claim(let source, .unavailable, let reason):
            if isCalm() { warning("a purchase cannot be verified now", ("source", source.rawValue), ("reason", reason ?? "-")) }
        case .claim(let source, .unknownProduct, let product):
            if isCalm() { warning("a purchase is of a product without a line", ("source", source.rawValue), ("product", product ?? "-")) }
        case .claim(let source, let verdict, let reason?) where isCalm():
            info("a purchase was refused", ("source", source.rawValue), ("verdict", verdict.rawValue), ("reason", reason))
        case .event(let source, let type, let verdict, _, let product) where verdict.givesNothing:
            warning(
                "a store event gives nothing", ("source", source.rawValue), ("type", type), ("verdict", verdict.name),
                ("product", product ?? "-"))
        case .refusedEvent(let source, .unavailable, let reason):
            // A forger causes it, too, while the keys of a store cannot be had.
            if isCalm() {
                warning("a store event was not kept, the store sends it again", ("source", source.rawValue), ("reason", reason))
            }
        case .refusedEvent(let source, let refusal, let reason) where isCalm():
            warning("a store event was refused", ("source", source.rawValue), ("verdict", refusal.rawValue), ("reason", reason))
        case .reconciled(let source, let asked, let failed, let reason?):
            warning(
                "a store does not answer for its purchases", ("source", source.rawValue), ("asked", "\(asked)"), ("failed", "\(failed)"),
                ("reason", reason))
        case .claim, .event, .refusedEvent, .fence, .reconciled, .newestEvents: break
        }
    }
}

extension PurchaseReport.EventVerdict {
    fileprivate var givesNothing: Bool { self == .kept(.unknownProduct) || self == .kept(.unknownAccount) }
}
