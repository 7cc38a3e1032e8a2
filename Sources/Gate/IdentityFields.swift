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
        case .userID, .userTier, .userPremium, .sessionID, .tokenIssuer, .actorType, .actorID, .signedIdentity: true
        }
    }
}

/// The identity fields of a token: pairs of a header and the slice of its line in a `FieldEdits`, which holds all of them. The fields of
/// the tier are not among them, because a tier may change during a token's life, and neither is the signed identity.
struct IdentityFields: Sendable {
    /// By the header's raw value; empty for one that the token does not have.
    private var lines = InlineArray<11, Slice>(repeating: Slice())

    /// Writes the fields of `token` into `edits`, which is emptied first. nil if a value cannot be a header value: omitting it would tell
    /// the upstream of another user.
    init?(_ token: VerifiedToken, issuer: String, order: [IdentityHeader] = IdentityHeader.allCases, into edits: inout FieldEdits) {
        edits.removeAll()
        var isSafe = true
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
                case .userTier, .userPremium, .signedIdentity: true
                }
            isSafe = isSafe && isWritten
        }
        guard isSafe else { return nil }
    }

    /// The line of a header in the edits that hold the fields; empty if there is none.
    subscript(_ header: IdentityHeader) -> Slice { lines[Int(header.rawValue)] }

    /// Another user than the token's.
    mutating func replaceUser(_ account: UUID, in edits: inout FieldEdits) {
        let start = edits.http1.byteCount
        _ = edits.add(IdentityHeader.userID.name, account)
        note(.userID, from: start, edits)
    }

    private mutating func note(_ header: IdentityHeader, from start: Int, _ edits: borrowing FieldEdits) {
        lines[Int(header.rawValue)] = Slice(start: start, count: edits.http1.byteCount - start)
    }

    /// Adds a field unless it is empty; false if its value cannot be a header value.
    private mutating func write(_ header: IdentityHeader, _ value: RawSpan, into edits: inout FieldEdits) -> Bool {
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
        for number in lines.indices where !lines[number].isEmpty {
            guard let header = IdentityHeader(rawValue: UInt8(number)), view.shows(header) else { continue }
            if Int(lines[number].start) == run.end {
                run.count += lines[number].count
            } else {
                edits.append(rendered: held[run])
                run = lines[number]
            }
        }
        edits.append(rendered: held[run])
    }
}
