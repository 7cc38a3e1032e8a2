package import Wire

/// An account that was merged into another one, until the services of the operator have moved what is its.
package struct Merge: Sendable, Hashable {
    /// How long a merge is announced at most, in seconds.
    package static let announcedSeconds: Int64 = 90 * 86_400
    /// How long the id of the merged account stands for the other one, in seconds.
    package static let aliasSeconds: Int64 = 400 * 86_400

    /// The account that ended.
    package let from: UUID
    /// The end of its announcement.
    package let until: WallTime

    package init(from: UUID, until: WallTime) {
        self.from = from
        self.until = until
    }
}

/// As they are stored: a line each, of fields between tabs.
extension Merge {
    /// nil for none.
    package static func text(_ merges: [Merge]) -> String? {
        merges.isEmpty ? nil : merges.map { "\($0.from.text)\t\($0.until.microseconds)" }.joined(separator: "\n")
    }

    /// nil if a line is not as `text` makes it.
    package static func merges(in text: String) -> [Merge]? {
        var merges: [Merge] = []
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: "\t").map(String.init)
            guard fields.count == 2, let from = UUID(parsing: fields[0]), let until = Int64(fields[1]) else { return nil }
            merges.append(Merge(from: from, until: WallTime(microseconds: until)))
        }
        return merges
    }
}
