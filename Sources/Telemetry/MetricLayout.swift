/// Position of a family's series in the flat array of cells.
struct FamilyShape: Equatable {
    /// First cell of the first series.
    var base = 0
    /// Number of values per label; 1 for unused labels.
    var sizes: (Int, Int, Int, Int) = (1, 1, 1, 1)
    /// Cells per series.
    var width = 1

    /// First cell of the series with these label values. An undeclared value traps in a debug build; in a release build it
    /// counts as the label's first value, because metrics must not crash the gateway.
    @inline(__always)
    func cell(_ a: Int, _ b: Int = 0, _ c: Int = 0, _ d: Int = 0) -> Int {
        let series = ((bounded(a, sizes.0) &* sizes.1 &+ bounded(b, sizes.1)) &* sizes.2 &+ bounded(c, sizes.2))
        return base &+ (series &* sizes.3 &+ bounded(d, sizes.3)) &* width
    }

    @inline(__always)
    private func bounded(_ index: Int, _ size: Int) -> Int {
        assert(index >= 0 && index < size, "a label value that was not declared")
        return UInt(bitPattern: index) < UInt(bitPattern: size) ? index : 0
    }

    /// Whether series with the same label values have the same place, counted from the base: the first label varies slowest.
    func begins(_ longer: Self) -> Bool {
        (sizes.1, sizes.2, sizes.3, width) == (longer.sizes.1, longer.sizes.2, longer.sizes.3, longer.width) && sizes.0 <= longer.sizes.0
    }

    var cellCount: Int { seriesCount * width }

    var seriesCount: Int { sizes.0 * sizes.1 * sizes.2 * sizes.3 }

    /// Label values of the series at `index`, in label order.
    func values(ofSeries index: Int) -> (Int, Int, Int, Int) {
        let c = index / sizes.3
        let b = c / sizes.2
        return (b / sizes.1, b % sizes.1, c % sizes.2, index % sizes.3)
    }

    static func == (left: Self, right: Self) -> Bool {
        left.base == right.base && left.sizes == right.sizes && left.width == right.width
    }
}

/// Positions of all families for one set of labels.
struct MetricLayout: Equatable {
    private let shapes: [FamilyShape]
    let cellCount: Int

    init(_ labels: MetricLabels) {
        var shapes: [FamilyShape] = []
        var base = 0
        for family in MetricFamily.allCases {
            let description = family.description
            var counts = description.dimensions.map { $0.values(labels).count }
            counts += repeatElement(1, count: 4 - counts.count)
            let shape = FamilyShape(
                base: base, sizes: (counts[0], counts[1], counts[2], counts[3]), width: description.width)
            base += shape.cellCount
            shapes.append(shape)
        }
        self.shapes = shapes
        cellCount = base
    }

    @inline(__always)
    subscript(_ family: MetricFamily) -> FamilyShape { shapes[family.rawValue] }

    /// Adds the cells counted under `older`, whose labels these labels continue, to `cells` of this layout.
    func add(_ counted: [UInt64], from older: MetricLayout, to cells: inout [UInt64]) {
        for family in MetricFamily.allCases {
            let (from, to) = (older[family], self[family])
            let kind = family.description.kind
            if from.begins(to) {
                for cell in 0..<from.cellCount {
                    cells[to.base + cell] = kind.merged(cells[to.base + cell], counted[from.base + cell])
                }
                continue
            }
            for series in 0..<from.seriesCount {
                let values = from.values(ofSeries: series)
                let source = from.base + series * from.width
                let target = to.cell(values.0, values.1, values.2, values.3)
                for offset in 0..<from.width {
                    cells[target + offset] = kind.merged(cells[target + offset], counted[source + offset])
                }
            }
        }
    }
}

extension FamilyDescription.Kind {
    /// Merges the numbers of two workers.
    fileprivate func merged(_ one: UInt64, _ other: UInt64) -> UInt64 {
        switch self {
        case .counter, .gauge, .histogram: one &+ other
        case .lowestGauge: min(one, other)
        case .highestGauge: max(one, other)
        }
    }
}
