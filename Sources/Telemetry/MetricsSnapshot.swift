/// Elements that the tier filter of a route has judged since the start.
package struct FilteredItems: Equatable, Sendable {
    package var kept: UInt64 = 0
    /// Including those that shadow mode let pass.
    package var dropped: UInt64 = 0
    /// Of both, those without a tier.
    package var unlabelled: UInt64 = 0
    package var droppedUnlabelled: UInt64 = 0

    package init(kept: UInt64 = 0, dropped: UInt64 = 0, unlabelled: UInt64 = 0, droppedUnlabelled: UInt64 = 0) {
        self.kept = kept
        self.dropped = dropped
        self.unlabelled = unlabelled
        self.droppedUnlabelled = droppedUnlabelled
    }
}

/// All numbers of a worker at one moment.
package struct MetricsSnapshot: Sendable {
    let labels: MetricLabels
    let layout: MetricLayout
    let cells: [UInt64]
    var exemplars = Exemplars()

    /// Merges the workers' numbers; nil without workers. Workers adopt a configuration one after the other; the newest
    /// labels continue those of the others.
    static func merged(_ snapshots: [MetricsSnapshot]) -> MetricsSnapshot? {
        guard let newest = snapshots.max(by: { $0.labels.generation < $1.labels.generation }) else { return nil }
        var cells = WorkerMetrics.zeros(newest.layout)
        for snapshot in snapshots { newest.layout.add(snapshot.cells, from: snapshot.layout, to: &cells) }
        let exemplars = snapshots.reduce(into: Exemplars()) { $0.merge($1.exemplars) }
        return MetricsSnapshot(labels: newest.labels, layout: newest.layout, cells: cells, exemplars: exemplars)
    }
}

extension MetricsSnapshot {
    /// The elements that tier filters judged, over all workers, by the name of the route.
    package static func filteredItems(_ snapshots: [MetricsSnapshot]) -> [String: FilteredItems] {
        guard let all = merged(snapshots) else { return [:] }
        let shape = all.layout[.filterItems]
        var items: [String: FilteredItems] = [:]
        for (index, name) in all.labels.routes.names.enumerated() {
            func count(_ action: FilterAction) -> UInt64 { all.cells[shape.cell(index, action.rawValue)] }
            items[name] = FilteredItems(
                kept: count(.kept), dropped: count(.dropped) + count(.shadowDropped), unlabelled: count(.unlabelled),
                droppedUnlabelled: count(.droppedUnlabelled))
        }
        return items
    }
}
