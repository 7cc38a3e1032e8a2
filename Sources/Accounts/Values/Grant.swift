package import Wire

/// A tier that an account has for one reason. The account's tier is the highest of its grants that are in force.
package struct Grant: Hashable, Sendable {
    /// `operator` for what `set-tier` sets, or a store's name. Stored, and shown: the texts never change.
    package let source: String
    /// Tells the grants of a source apart: the id of a purchase; empty for the operator's.
    package let key: String
    package let tier: String
    /// nil for a grant without end.
    package let until: WallTime?

    package static let `operator` = "operator"

    package init(source: String, key: String, tier: String, until: WallTime?) {
        self.source = source
        self.key = key
        self.tier = tier
        self.until = until
    }
}

/// As they are stored: a line each, of fields between tabs.
extension Grant {
    /// nil for no grants.
    package static func text(_ grants: [Grant]) -> String? {
        grants.isEmpty
            ? nil
            : grants.map { "\($0.source)\t\($0.key)\t\($0.tier)\t\($0.until.map { String($0.microseconds) } ?? "")" }.joined(
                separator: "\n")
    }

    /// nil if a line is not as `text` makes it.
    package static func grants(in text: String) -> [Grant]? {
        var grants: [Grant] = []
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            guard fields.count == 4 else { return nil }
            var until: WallTime?
            if !fields[3].isEmpty {
                guard let microseconds = Int64(fields[3]) else { return nil }
                until = WallTime(microseconds: microseconds)
            }
            grants.append(Grant(source: fields[0], key: fields[1], tier: fields[2], until: until))
        }
        return grants
    }
}
