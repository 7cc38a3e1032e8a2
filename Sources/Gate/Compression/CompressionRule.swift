package import HTTP
internal import Wire

/// The codings that answers may be compressed by, the preferred first (`TOLLGATE_COMPRESS`).
package struct CompressionCodings: Sendable, Equatable {
    /// In order.
    package let codings: [ContentCoding]

    /// No coding: nothing is compressed.
    package static let none = Self(codings: [])
    /// The codings by name, in the order of the default.
    package static let names = ["zstd", "br", "gzip"]

    private init(codings: [ContentCoding]) { self.codings = codings }

    /// nil if a name is none of `names`, or occurs twice.
    package init?(_ words: [String]) {
        guard words.allSatisfy(Self.names.contains), Set(words).count == words.count else { return nil }
        codings = words.compactMap { ContentCoding(named: Array($0.utf8).rawBytes) }
    }

    /// The names, separated by spaces; `off` for none.
    package var text: String { codings.isEmpty ? "off" : codings.map { "\($0.name)" }.joined(separator: " ") }
}

/// The compression of a route's answers.
package struct CompressionRule: Sendable, Equatable {
    /// Which answers of the gateway are compressed (`compress=`).
    package enum Mode: Sendable, CaseIterable {
        /// Those that it filters, whose upstream is asked for plain JSON.
        case filtered
        case on
        case off
    }

    package var mode = Mode.filtered
    /// The length from which on an answer is compressed (`compress-min=`).
    package var least: UInt64 = 1_024
    /// Whether event streams are, too (`compress-events=`).
    package var takesEvents = false
    /// Of all routes, once these settings are read.
    package var codings = CompressionCodings.none
    /// Further media types, in lower case (`TOLLGATE_COMPRESS_TYPES`).
    package var types: [String] = []

    /// The rule of a route that does not say anything of compression.
    package init() {}
}

/// The compression of a route's answers, compiled.
package final class CompressionPlan: Sendable {
    /// The codings, the preferred first.
    package let codings: [ContentCoding]
    /// The length from which on an answer is compressed.
    package let least: UInt64
    /// Whether event streams are compressed, too.
    package let takesEvents: Bool
    private let types: [[UInt8]]

    /// nil on a route whose answers are not compressed.
    package init?(_ rule: RouteRule) {
        let isFiltered = !rule.filters.isEmpty && !rule.shadow.contains(.filter)
        guard rule.compression.mode == .on || rule.compression.mode == .filtered && isFiltered else { return nil }
        guard !rule.compression.codings.codings.isEmpty else { return nil }
        codings = rule.compression.codings.codings
        least = rule.compression.least
        takesEvents = rule.compression.takesEvents
        types = rule.compression.types.map { Array($0.utf8) }
    }

    private static let known: [StaticString] = [
        "application/json", "application/javascript", "application/x-javascript", "application/xml", "application/x-ndjson",
        "application/jsonl", "application/json-seq", "application/protobuf", "application/x-protobuf", "application/graphql",
    ]

    /// Whether content of this media type becomes smaller: text, and the types of the setting.
    package func compresses(_ type: RawSpan) -> Bool {
        if type.hasPrefixIgnoringCase("text/") { return true }
        // gRPC has a compression of its own, and its messages must not wait for one another.
        if type.hasPrefixIgnoringCase("application/grpc") { return false }
        if type.hasSuffixIgnoringCase("+json") || type.hasSuffixIgnoringCase("+xml") { return true }
        return Self.known.contains { type.equalsIgnoringCase($0) } || types.contains { type.isInAnyCase($0) }
    }
}

extension Admission {
    /// The compression of the answer, where the route has any.
    package func compression(_ decision: borrowing Decision) -> CompressionPlan? { policy.plans[decision.routeIndex].compression }
}

extension RawSpan {
    fileprivate func isInAnyCase(_ lowercased: [UInt8]) -> Bool {
        byteCount == lowercased.count && (0..<byteCount).allSatisfy { self[$0].lowercasedASCII == lowercased[$0] }
    }

    fileprivate func hasPrefixIgnoringCase(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        return byteCount >= count && extracting(0..<count).equalsIgnoringCase(text)
    }

    fileprivate func hasSuffixIgnoringCase(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        return byteCount >= count && dropping(byteCount - count).equalsIgnoringCase(text)
    }
}
