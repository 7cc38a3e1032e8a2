package import Accounts

/// An outside issuer whose users the operator may name.
package struct SubjectIssuer: Sendable, Equatable {
    /// The trust line's name, in lower case.
    package var name: String
    /// `accounts=on`.
    package var hasAccounts: Bool

    package init(name: String, hasAccounts: Bool) {
        self.name = name
        self.hasAccounts = hasAccounts
    }
}

/// `NAME:SUBJECT`: a user of an outside issuer, by the name of its trust line, where the operator may also give an id.
package struct SubjectName: Sendable {
    package let key: IdentityKey
    /// Whether the subject may be the id of an imported account (`accounts=on`).
    package let mayBeID: Bool
    package var text: String { "\(key.source.name):\(key.subject)" }

    package enum Fault: Error, Equatable {
        case unknownIssuer(String, known: [String])
        case unusableSubject

        package var message: String {
            switch self {
            case .unknownIssuer(let name, let known):
                "\(name) names no TOLLGATE_TRUST_… line, \(known.isEmpty ? "there is none" : "they are \(known.joined(separator: ", "))")"
            case .unusableSubject: "a subject has 1 to 255 bytes, no control characters and no space at its ends"
            }
        }
    }

    /// Parses what comes before the first colon as the name of one of `issuers`, and the rest as the subject, whatever it
    /// contains. nil for a text that is not of this form: an id or an email.
    package init?(_ text: String, issuers: [SubjectIssuer]) throws(Fault) {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let name = text[..<colon].lowercased()
        guard !name.isEmpty, name.utf8.allSatisfy(Self.isInName) else { return nil }
        guard let issuer = issuers.first(where: { $0.name == name }), let source = IdentitySource(trustLine: name) else {
            throw .unknownIssuer(name, known: issuers.map(\.name))
        }
        guard let key = IdentityKey(source, subject: String(text[text.utf8.index(after: colon)...])) else { throw .unusableSubject }
        self.key = key
        mayBeID = issuer.hasAccounts
    }

    private static func isInName(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || byte == UInt8(ascii: "_")
    }
}
