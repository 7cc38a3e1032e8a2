import Credentials
import HTTP
import Wire

/// The parts of an identity that an upstream may see.
struct IdentityView {
    /// `forward=name` of the route.
    var forwardsName: Bool
    /// `forward=email` of the route.
    var forwardsEmail: Bool
    /// Whether the email counts as verified.
    var isEmailProven: Bool
    /// `Decision.hidesEmail`.
    var hidesEmail: Bool

    /// Whether the upstream gets this field.
    func shows(_ header: IdentityHeader) -> Bool {
        switch header {
        case .userName: forwardsName
        case .userEmailVerified: forwardsEmail && !hidesEmail
        case .userEmail: (forwardsEmail || isEmailProven) && !hidesEmail
        case .userID, .userTier, .userPremium, .sessionID, .tokenIssuer, .actorType, .actorID, .mergedFrom, .signedIdentity: true
        }
    }

    /// The fields that the upstream gets, as bits by raw value.
    var shown: UInt16 {
        Self.shown[(forwardsName ? 1 : 0) | (forwardsEmail ? 2 : 0) | (isEmailProven ? 4 : 0) | (hidesEmail ? 8 : 0)]
    }

    /// The bits of every view, so that a request asks none of the fields.
    private static let shown = InlineArray<16, UInt16> { number in
        let view = IdentityView(
            forwardsName: number & 1 != 0, forwardsEmail: number & 2 != 0, isEmailProven: number & 4 != 0, hidesEmail: number & 8 != 0)
        return IdentityHeader.allCases.reduce(0) { view.shows($1) ? $0 | $1.bit : $0 }
    }
}

extension IdentityHeader {
    fileprivate var bit: UInt16 { 1 << UInt16(rawValue) }
}

/// The identity fields of a token: pairs of a header and the slice of its line in a `FieldEdits`, which holds all of them. The fields of
/// the tier and the merges are not among them, because they may change during a token's life, and neither is the signed identity.
struct IdentityFields: Sendable {
    /// A line by its place. Small, because requests copy identities.
    private struct Line {
        var start: UInt16 = 0
        var count: UInt16 = 0
    }

    /// Bytes of all lines of a token.
    private static let maxBytes = 60_000

    /// By the header's raw value; empty for one that the token does not have.
    private var lines = InlineArray<12, Line>(repeating: Line())
    /// The headers that the token has, as bits by raw value.
    private var present: UInt16 = 0

    /// Writes the fields of `token` into `edits`, which is emptied first. nil if a value cannot be a header value, as omitting it would tell
    /// the upstream of another user, and if they are too long.
    init?(_ token: VerifiedToken, issuer: String, order: [IdentityHeader] = IdentityHeader.allCases, into edits: inout FieldEdits) {
        edits.removeAll()
        for header in order {
            let isWritten =
                switch header {
                case .userName: writeName(token.name, into: &edits)
                case .userEmailVerified: write(header, (token.isEmailProven ? "true" : "false" as StaticString).rawBytes, into: &edits)
                case .userEmail: write(header, token.email, into: &edits)
                case .userID: write(header, token.userID, into: &edits)
                case .sessionID: write(header, token.sessionID, into: &edits)
                case .tokenIssuer: issuer.withRawBytes { write(header, $0, into: &edits) }
                case .actorType: write(header, token.actorType, into: &edits)
                case .actorID: write(header, token.actorID, into: &edits)
                case .userTier, .userPremium, .mergedFrom, .signedIdentity: true
                }
            guard isWritten, edits.http1.byteCount <= Self.maxBytes else { return nil }
        }
    }

    /// The line of a header in the edits that hold the fields; empty if there is none.
    subscript(_ header: IdentityHeader) -> Slice {
        let line = lines[Int(header.rawValue)]
        return Slice(start: Int(line.start), count: Int(line.count))
    }

    /// Another user than the token's.
    mutating func replaceUser(_ account: UUID, in edits: inout FieldEdits) {
        let start = edits.http1.byteCount
        _ = edits.add(IdentityHeader.userID.name, account)
        note(.userID, from: start, edits)
    }

    private mutating func note(_ header: IdentityHeader, from start: Int, _ edits: borrowing FieldEdits) {
        lines[Int(header.rawValue)] = Line(
            start: UInt16(truncatingIfNeeded: start), count: UInt16(truncatingIfNeeded: edits.http1.byteCount - start))
        present |= header.bit
    }

    /// Adds a field unless it is empty; false if its value cannot be a header value.
    mutating func write(_ header: IdentityHeader, _ value: RawSpan, into edits: inout FieldEdits) -> Bool {
        guard value.byteCount > 0 else { return true }
        let start = edits.http1.byteCount
        edits.add(header.name, value)
        note(header, from: start, edits)
        return IdentityHeaders.isSafe(value)
    }

    private mutating func writeName(_ name: RawSpan, into edits: inout FieldEdits) -> Bool {
        guard name.byteCount > 0 else { return true }
        let start = edits.http1.byteCount
        edits.begin(IdentityHeader.userName.name)
        edits.append(percentEncoded: name)
        edits.end()
        note(.userName, from: start, edits)
        return true
    }

    /// Adds the fields that `view` shows to `edits`, from those that hold them. Lines that follow each other are copied at once.
    func append(_ view: IdentityView, from held: borrowing FieldEdits, to edits: inout FieldEdits) {
        var run = Slice()
        var left = present & view.shown
        while left != 0 {
            let line = lines[left.trailingZeroBitCount]
            left &= left &- 1
            if Int(line.start) == run.end {
                run.count += UInt32(line.count)
            } else {
                if !run.isEmpty { edits.append(rendered: held[run]) }
                run = Slice(start: Int(line.start), count: Int(line.count))
            }
        }
        edits.append(rendered: held[run])
    }
}
