package import Wire

/// An email address that is safe in mail headers and SMTP commands (RFC 5321 §4.1.2): it cannot end a line, add another address or
/// contain invisible characters.
struct MailAddress: Sendable, Hashable {
    /// `ada@example.org`, with the local part quoted if need be.
    let text: String
    let domain: String

    /// Parses an address of at most 254 bytes; nil if it is invalid or unsafe.
    init?(_ raw: String) {
        guard raw.utf8.count <= 254, let at = raw.lastIndex(of: "@"),
            !raw.unicodeScalars.contains(where: Self.isUnsafe)
        else { return nil }
        let (local, domain) = (raw[..<at], raw[raw.index(after: at)...])
        guard !local.isEmpty, Self.isDomain(domain) else { return nil }
        text = (Self.isDotAtom(local) ? String(local) : HeaderText.quoted(local)) + "@" + domain
        self.domain = String(domain)
    }

    /// Whether a scalar is white space or invisible.
    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse: true
        default: scalar.properties.isWhitespace
        }
    }

    private static func isDomain(_ text: Substring) -> Bool {
        if text.hasPrefix("["), text.hasSuffix("]") {
            return text.utf8.count > 2
                && text.utf8.dropFirst().dropLast().allSatisfy { $0.isASCIIDigit || $0.isASCIILetter || $0 == 46 || $0 == 58 }
        }
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        return labels.allSatisfy { label in
            !label.isEmpty && label.utf8.allSatisfy { $0 >= 0x80 || $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") }
        }
    }

    private static func isDotAtom(_ text: Substring) -> Bool {
        text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { atom in
            !atom.isEmpty && atom.utf8.allSatisfy(\.isAtomByte)
        }
    }
}

/// The sender of mails: an address and an optional display name (RFC 5322 §3.4).
package struct Sender: Sendable, Hashable {
    package let name: String?
    let address: MailAddress

    /// Parses `Tollgate <no-reply@example.org>` or a bare address.
    package init(_ text: String) throws(ParseError) {
        var rest = text[...]
        var name: Substring = ""
        if let open = text.lastIndex(of: "<"), text.hasSuffix(">") {
            name = text[..<open]
            rest = text[text.index(after: open)...].dropLast()
        }
        guard let address = MailAddress(String(rest)) else {
            throw ParseError("is no sender, write one like no-reply@example.org or Example <no-reply@example.org>")
        }
        let plain = name.trimmed.strippingQuotes
        self.name = plain.isEmpty ? nil : String(plain)
        self.address = address
    }

    /// The value of the `From` header.
    var header: String {
        guard let name else { return address.text }
        return HeaderText.phrase(name) + " <\(address.text)>"
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        var text = self
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }

    fileprivate var strippingQuotes: Substring {
        count > 1 && hasPrefix("\"") && hasSuffix("\"") ? dropFirst().dropLast() : self
    }
}
