/// Reference of the metrics, from the tables that `/metrics` is written from.
package enum MetricsReference {
    /// One metric.
    package struct Row: Sendable {
        package let name: String
        /// `counter`, `gauge` or `histogram`.
        package let type: String
        package let labels: [String]
        package let help: String
    }

    /// All metrics, in the order of `/metrics`.
    package static var rows: [Row] {
        let process = ProcessFamily.allCases.map(\.description).map { family in
            Row(name: family.name, type: family.type.description, labels: family.labels, help: family.help)
        }
        let workers = MetricFamily.allCases.map(\.description).map { family in
            Row(
                name: family.name, type: family.kind.type.description, labels: family.dimensions.map(\.label), help: family.help)
        }
        return process + workers
    }

    /// The table of `docs/metrics.md`.
    package static var markdown: String {
        var text = "| metric | type | labels | meaning |\n|---|---|---|---|\n"
        for row in rows {
            let labels = row.labels.map { "`\($0)`" }.joined(separator: ", ")
            text += "| `\(row.name)` | \(row.type) | \(labels) | \(row.help) |\n"
        }
        return text
    }

    /// For a terminal.
    package static var plain: String {
        rows.map { row in
            let labels = row.labels.isEmpty ? "" : "{\(row.labels.joined(separator: ","))}"
            return "\(row.name)\(labels) (\(row.type))\n    \(row.help)\n"
        }.joined()
    }
}
