import Wire

/// A recorded request, as an example of its bucket of the request duration.
struct Exemplar: Sendable {
    var context: TraceContext
    var micros: UInt64
    var at: WallTime
}

/// The newest exemplar of each route and bucket of the request duration. Owns no memory before the first.
struct Exemplars: Sendable {
    private var cells: [Exemplar?] = []

    private static let width = HistogramScale.latencyBounds.count + 1

    mutating func note(_ exemplar: Exemplar, route: Int) {
        if cells.count < (route + 1) * Self.width {
            cells += [Exemplar?](repeating: nil, count: (route + 1) * Self.width - cells.count)
        }
        let bucket = HistogramScale.latencyBounds.firstIndex { exemplar.micros <= $0 } ?? Self.width - 1
        cells[route * Self.width + bucket] = exemplar
    }

    subscript(route route: Int, bucket bucket: Int) -> Exemplar? {
        let index = route * Self.width + bucket
        return cells.indices.contains(index) ? cells[index] : nil
    }

    /// Takes over what is newer.
    mutating func merge(_ other: Exemplars) {
        if cells.count < other.cells.count { cells += [Exemplar?](repeating: nil, count: other.cells.count - cells.count) }
        for (index, exemplar) in other.cells.enumerated() {
            guard let exemplar else { continue }
            if let own = cells[index], own.at > exemplar.at { continue }
            cells[index] = exemplar
        }
    }
}
