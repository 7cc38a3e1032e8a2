import Wire

/// Rank of a tier: 0 is the lowest, which every caller has; a higher one includes those below. `TierList` has the names.
@frozen
public struct Tier: RawRepresentable, Hashable, Comparable, Sendable {
    public var rawValue: UInt8

    @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The tier of every caller, with a token or without.
    public static let lowest = Tier(rawValue: 0)

    @inlinable public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// The tiers of this gateway in ascending order (`TOLLGATE_TIERS`).
package struct TierList: Sendable, Hashable {
    /// Invalid list of tier names.
    package enum Fault: Error, Equatable, Sendable {
        case empty
        case tooMany
        /// Repeated, reserved (`anonymous`), or with characters that a header or a limit cannot carry.
        case badName(String)

        package var message: String {
            switch self {
            case .empty: "no tier is named; name at least one, the lowest first"
            case .tooMany: "more than \(TierList.capacity) tiers"
            case .badName(let name):
                "the tier \"\(name)\" is named twice, reserved, or not made of letters, digits, - and _"
            }
        }
    }

    /// Maximum number of tiers; ranks index small per-route tables.
    package static let capacity = 32

    /// In ascending order; never empty.
    package let names: [String]
    /// Lowest rank that counts as premium: that of the tier `premium`, otherwise the one above the lowest.
    private let premiumRank: Int

    package init(_ names: [String]) throws(Fault) {
        if names.isEmpty { throw .empty }
        if names.count > Self.capacity { throw .tooMany }
        var seen: Set<String> = []
        for name in names where !Self.isUsable(name) || !seen.insert(name).inserted { throw .badName(name) }
        self.names = names
        premiumRank = names.firstIndex(of: "premium") ?? 1
    }

    private static func isUsable(_ name: String) -> Bool {
        !name.isEmpty && name != "anonymous"
            && name.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
    }

    /// `free premium`, the default.
    package static let standard = TierList(trusted: ["free", "premium"])

    private init(trusted names: [String]) {
        self.names = names
        premiumRank = 1
    }

    package var lowest: Tier { .lowest }
    package var highest: Tier { Tier(rawValue: UInt8(names.count - 1)) }

    /// The tier with exactly this name; nil if there is none.
    package func rank(of name: String) -> Tier? {
        names.firstIndex(of: name).map { Tier(rawValue: UInt8($0)) }
    }

    /// The tier with exactly these bytes; nil if there is none.
    package func rank(of name: RawSpan) -> Tier? {
        for (index, known) in names.enumerated() where known.withRawBytes({ $0.equals(name) }) {
            return Tier(rawValue: UInt8(index))
        }
        return nil
    }

    package func name(of tier: Tier) -> String {
        names[min(Int(tier.rawValue), names.count - 1)]
    }

    package func isPremium(_ tier: Tier) -> Bool { Int(tier.rawValue) >= premiumRank }
}
