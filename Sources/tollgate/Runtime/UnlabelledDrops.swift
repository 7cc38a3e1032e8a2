internal import Gate
internal import Telemetry
internal import Wire

/// Routes whose filter removes elements only because they have no label, as when the upstream leaves the field out or
/// `filter=` misspells it. Looked for once a minute in the sums of all workers, so a gateway says it once.
struct UnlabelledDrops {
    /// A route, and how many elements it removed in the minute.
    struct Notice: Equatable {
        let route: String
        let count: UInt64
    }

    private static let intervalMilliseconds: UInt64 = 60_000

    private var nextAt: MonotonicTime
    /// The sums a minute ago.
    private var earlier: [String: FilteredItems] = [:]

    init(now: MonotonicTime) { nextAt = now.advanced(milliseconds: Self.intervalMilliseconds) }

    /// Whether a minute is over: then call `notices`.
    func isDue(_ now: MonotonicTime) -> Bool { now >= nextAt }

    /// The routes that removed elements in the last minute, and each for want of a label. A tier in `filter-unlabelled=` is a
    /// label by the operator's word. `filter-unlabelled=drop` says that removing is meant: such a route is named only if
    /// nothing at all had a label.
    mutating func notices(_ sums: [String: FilteredItems], _ rules: [RouteRule], now: MonotonicTime) -> [Notice] {
        nextAt = now.advanced(milliseconds: Self.intervalMilliseconds)
        defer { earlier = sums }
        return rules.compactMap { rule in
            guard let items = sums[rule.name]?.since(earlier[rule.name]) else { return nil }
            guard items.droppedUnlabelled > 0, items.droppedUnlabelled == items.dropped else { return nil }
            switch rule.unlabelled {
            case .byForm: break
            case .drop: guard items.unlabelled == items.kept + items.dropped else { return nil }
            case .keep, .tier: return nil
            }
            return Notice(route: rule.name, count: items.dropped)
        }
    }
}

extension FilteredItems {
    fileprivate func since(_ earlier: FilteredItems?) -> FilteredItems {
        guard let earlier else { return self }
        // A worker that has ended reports no more, so a sum may shrink.
        func left(_ now: UInt64, _ before: UInt64) -> UInt64 { now > before ? now - before : 0 }
        return FilteredItems(
            kept: left(kept, earlier.kept), dropped: left(dropped, earlier.dropped),
            unlabelled: left(unlabelled, earlier.unlabelled),
            droppedUnlabelled: left(droppedUnlabelled, earlier.droppedUnlabelled))
    }
}

extension ServerLog {
    func write(_ notice: UnlabelledDrops.Notice) {
        let detail =
            "filter-unlabelled=keep on the route lets them pass, filter-unlabelled=TIER counts them as that tier; or the upstream labels them"
        warning(
            "every element that the filter removed in the last minute had no label", ("route", notice.route),
            ("elements", "\(notice.count)"), ("detail", detail))
    }
}
