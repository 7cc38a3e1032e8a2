/// A provider of ID tokens, by the name of its `TOLLGATE_PROVIDER_…` line in lower case. Stored: one that is known keeps its name.
package struct Provider: RawRepresentable, Hashable, Sendable {
    package let rawValue: String

    package static let apple = Self("apple")
    package static let google = Self("google")
    /// Those that the contracts' documents name.
    package static let documented = [apple, google]

    /// nil for what is no name: letters in lower case, digits and underscores.
    package init?(rawValue: String) {
        let isName = rawValue.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
            default: false
            }
        }
        guard isName, (1...64).contains(rawValue.utf8.count) else { return nil }
        self.init(rawValue)
    }

    private init(_ name: String) { rawValue = name }
}
