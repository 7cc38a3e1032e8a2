/// The text format of `/metrics`.
package enum ExpositionFormat: Sendable {
    /// Prometheus's, version 0.0.4.
    case prometheus
    /// OpenMetrics 1.0, which has exemplars.
    case openMetrics

    /// `Content-Type` of the answer.
    package var contentType: StaticString {
        switch self {
        case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }

    /// OpenMetrics if `Accept` names it and prefers no plain text.
    package init(accept: String) {
        var open = 0.0, plain = 0.0
        for range in accept.split(separator: ",") {
            let parts = range.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            if parts.first == "application/openmetrics-text" { open = max(open, weight) }
            if parts.first == "text/plain" { plain = max(plain, weight) }
        }
        self = open > 0 && open >= plain ? .openMetrics : .prometheus
    }
}
