package import Wire

/// The parameters of a query, percent-decoded. A `+` is a plus sign, because email addresses have them.
///
/// Unknown, repeated or undecodable parameters are refused: ignoring a filter would return more than was asked for.
package struct AdminQuery: Sendable {
    private var values: [String: String] = [:]

    /// `query` is empty or begins with its question mark.
    init(_ query: String, knows names: [String]) throws(AdminRefusal) {
        for pair in query.dropFirst().split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decoded(parts[0]) else { throw Self.bad("The query is not percent-encoded UTF-8") }
            guard names.contains(name) else {
                throw Self.bad("There is no parameter \(name) here, use \(alternatives(names))")
            }
            guard let value = Self.decoded(parts.count > 1 ? parts[1] : "") else {
                throw Self.bad("\(name) is not percent-encoded UTF-8")
            }
            guard values.updateValue(value, forKey: name) == nil else { throw Self.bad("\(name) is given twice") }
        }
    }

    private static func bad(_ message: String) -> AdminRefusal { AdminRefusal(400, "BAD_REQUEST", message) }

    package subscript(_ name: String) -> String? { values[name] }

    private static let largestPage = 1_000

    /// The parameter `limit`: the largest number of elements in a list, from 1 to 1,000; 100 by default.
    package func limit() throws(AdminRefusal) -> Int {
        guard let text = self["limit"] else { return 100 }
        guard let limit = Int(text), (1...Self.largestPage).contains(limit) else {
            throw Self.bad("limit must be a number from 1 to \(Self.largestPage)")
        }
        return limit
    }

    /// A parameter that is a UUID; nil without it.
    package func id(_ name: String, of thing: String) throws(AdminRefusal) -> UUID? {
        guard let text = self[name] else { return nil }
        guard let id = UUID(parsing: text) else { throw Self.bad("\(name) must be the id of \(thing)") }
        return id
    }

    private static func decoded(_ text: Substring) -> String? {
        PercentEncoding.decode(text.utf8).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
