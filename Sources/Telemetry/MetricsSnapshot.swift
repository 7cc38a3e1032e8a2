/// All numbers of a worker at one moment.
package struct MetricsSnapshot: Sendable {
    let labels: MetricLabels
    let layout: MetricLayout
    let cells: [UInt64]

    /// Merges the workers' numbers; nil without workers. Workers adopt a configuration one after the other; the newest
    /// labels continue those of the others.
    static func merged(_ snapshots: [MetricsSnapshot]) -> MetricsSnapshot? {
        guard let newest = snapshots.max(by: { $0.labels.generation < $1.labels.generation }) else { return nil }
        var cells = WorkerMetrics.zeros(newest.layout)
        for snapshot in snapshots { newest.layout.add(snapshot.cells, from: snapshot.layout, to: &cells) }
        return MetricsSnapshot(labels: newest.labels, layout: newest.layout, cells: cells)
    }
}
