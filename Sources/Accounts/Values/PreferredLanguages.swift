internal import Wire

/// The languages that a client prefers, as `Accept-Language` names them (RFC 9110 §12.5.4).
package struct PreferredLanguages: Sendable, Equatable {
    /// Tags beyond that are ignored.
    private static let most = 16

    /// In lower case, the most preferred first; without `*` and what is refused.
    package let tags: [String]

    /// A tag alone counts as well. What is malformed is ignored.
    package init(_ header: String) {
        var found: [(tag: String, quality: Int)] = []
        for item in header.prefix(1_024).split(separator: ",").prefix(Self.most) {
            let parts = item.split(separator: ";").map { String($0.filter { $0 != " " && $0 != "\t" }) }
            guard let tag = parts.first?.lowercased(), Self.isTag(tag) else { continue }
            let quality = parts.dropFirst().first.map(Self.quality) ?? 1_000
            if quality > 0 { found.append((tag, quality)) }
        }
        // Of equal ones the earlier is preferred.
        tags = found.enumerated().sorted { ($1.element.quality, $0.offset) < ($0.element.quality, $1.offset) }.map(\.element.tag)
    }

    /// The one of `available`, in lower case, that fits best: by look-up (RFC 4647 §3.4), so that `de-at` finds `de`. nil if none does.
    package func best(of available: Set<String>) -> String? {
        for tag in tags {
            if let found = Self.broader(tag).first(where: available.contains) { return found }
        }
        return nil
    }

    /// The tag and those that it is a part of: `zh-hant-tw`, `zh-hant`, `zh`.
    package static func broader(_ tag: String) -> [String] {
        let parts = tag.split(separator: "-")
        return (1...max(1, parts.count)).reversed().map { parts.prefix($0).joined(separator: "-") }
    }

    /// Whether it has the form of a language tag, in lower case.
    package static func isTag(_ text: String) -> Bool {
        (2...35).contains(text.utf8.count)
            && text.split(separator: "-", omittingEmptySubsequences: false).allSatisfy { part in
                (1...8).contains(part.utf8.count) && part.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit }
            }
    }

    /// A weight in thousandths; 0 for what is malformed.
    private static func quality(_ text: String) -> Int {
        guard text.hasPrefix("q="), let first = text.dropFirst(2).first, first == "0" || first == "1" else { return 0 }
        let digits = text.dropFirst(4).prefix(3)
        guard first == "0" else { return 1_000 }
        return Int(digits + String(repeating: "0", count: 3 - digits.count)) ?? 0
    }
}
