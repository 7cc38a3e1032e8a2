import CArgon2
import Wire

/// The cost parameters of argon2id (RFC 9106 §3.1).
package struct Argon2Cost: Sendable, Equatable {
    /// Memory in KiB, at least 8 for each lane.
    package var kibibytes: UInt32
    /// Passes over the memory, at least 1.
    package var passes: UInt32
    /// Lanes, at least 1; each beyond the first starts a thread.
    package var lanes: UInt32

    package init(kibibytes: UInt32, passes: UInt32, lanes: UInt32) {
        self.kibibytes = kibibytes
        self.passes = passes
        self.lanes = lanes
    }

    /// 19 MiB, 2 passes, 1 lane: one of the equivalent settings of the OWASP Password Storage Cheat Sheet.
    package static let standard = Self(kibibytes: 19_456, passes: 2, lanes: 1)

    /// Whether hashes of this cost are computed at all: an imported hash must not cost minutes or gigabytes. At most 16 lanes,
    /// 256 MiB, and 1 GiB over all passes.
    var isWithinBounds: Bool {
        (1...16).contains(lanes) && (8 * lanes...262_144).contains(kibibytes)
            && (1...1_048_576).contains(UInt64(kibibytes) * UInt64(passes))
    }

    fileprivate var native: cargon2_cost { cargon2_cost(passes: passes, kibibytes: kibibytes, lanes: lanes) }
}

/// An argon2id hash. Its text is the PHC string format: `$argon2id$v=19$m=19456,t=2,p=1$SALT$TAG`, salt and tag in unpadded base64.
struct Argon2Hash: Sendable, Equatable {
    /// Lengths for new hashes; a parsed one may have others.
    static let saltBytes = 16
    private static let tagBytes = 32

    let cost: Argon2Cost
    private let salt: [UInt8]
    private let tag: [UInt8]

    /// Hashes a password; nil if memory runs out.
    init?(_ password: RawSpan, cost: Argon2Cost, salt: [UInt8]) {
        guard cost.isWithinBounds, let tag = Self.tag(password, cost, salt, count: Self.tagBytes) else { return nil }
        self.init(cost: cost, salt: salt, tag: tag)
    }

    /// Parses the PHC string; nil for any other form and for a cost out of bounds.
    init?(parsing text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 6, parts[0].isEmpty, parts[1] == "argon2id", parts[2] == "v=19",
            let cost = Self.cost(parts[3]), cost.isWithinBounds,
            let salt = String(parts[4]).withRawBytes({ Base64.decode($0, isPadded: false) }),
            let tag = String(parts[5]).withRawBytes({ Base64.decode($0, isPadded: false) }),
            (8...64).contains(salt.count), (16...64).contains(tag.count)
        else { return nil }
        self.init(cost: cost, salt: salt, tag: tag)
    }

    /// A hash with an all-zero tag, for which no password is known: signing in to a missing account takes as long as to a real one.
    static func unmatchable(cost: Argon2Cost) -> Self {
        Self(cost: cost, salt: Array(repeating: 0, count: saltBytes), tag: Array(repeating: 0, count: tagBytes))
    }

    private init(cost: Argon2Cost, salt: [UInt8], tag: [UInt8]) {
        self.cost = cost
        self.salt = salt
        self.tag = tag
    }

    var text: String {
        let parameters = "m=\(cost.kibibytes),t=\(cost.passes),p=\(cost.lanes)"
        let salt = Base64.encode(salt.rawBytes, isPadded: false)
        return "$argon2id$v=19$\(parameters)$\(salt)$\(Base64.encode(tag.rawBytes, isPadded: false))"
    }

    /// Whether the hash is of `password`, compared in constant time; nil if memory runs out.
    func matches(_ password: RawSpan) -> Bool? {
        guard let other = Self.tag(password, cost, salt, count: tag.count) else { return nil }
        return Digest.constantTimeEquals(other.rawBytes, tag.rawBytes)
    }

    private static func tag(_ password: RawSpan, _ cost: Argon2Cost, _ salt: [UInt8], count: Int) -> [UInt8]? {
        var tag = [UInt8](repeating: 0, count: count)
        let made = unsafe password.withUnsafeBytes {
            unsafe cargon2_hash(cost.native, $0.baseAddress, $0.count, salt, salt.count, &tag, count)
        }
        return made == 1 ? tag : nil
    }

    /// Parses `m=19456,t=2,p=1`.
    private static func cost(_ text: Substring) -> Argon2Cost? {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count == 3, let memory = number(parts[0], "m="), let passes = number(parts[1], "t="),
            let lanes = number(parts[2], "p=")
        else { return nil }
        return Argon2Cost(kibibytes: memory, passes: passes, lanes: lanes)
    }

    private static func number(_ text: Substring, _ name: String) -> UInt32? {
        let digits = text.dropFirst(2)
        guard text.hasPrefix(name), digits.utf8.allSatisfy(\.isASCIIDigit) else { return nil }
        return UInt32(digits)
    }
}
