/// All numbers of one worker at one moment.
package struct MetricsSnapshot: Sendable {
    let labels: MetricLabels
    let layout: MetricLayout
    let cells: [UInt64]

    /// The workers' numbers as one, nil without workers. They adopt a configuration one after the other; the newest
    /// labels continue those of the others.
    static func merged(_ snapshots: [MetricsSnapshot]) -> MetricsSnapshot? {
        guard let newest = snapshots.max(by: { $0.labels.generation < $1.labels.generation }) else { return nil }
        var cells = WorkerMetrics.zeros(newest.layout)
        for snapshot in snapshots { newest.layout.add(snapshot.cells, from: snapshot.layout, to: &cells) }
        return MetricsSnapshot(labels: newest.labels, layout: newest.layout, cells: cells)
    }
}
