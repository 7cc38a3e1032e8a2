package import Wire

/// An email address as it may stand in a mail's header and in SMTP (RFC 5321 §4.1.2): nothing in it can end a line, open
/// another address or hide a part of it.
struct MailAddress: Sendable, Hashable {
    /// `ada@example.org`, the part before the `@` in quotes where it needs them.
    let text: String
    let domain: String

    /// nil for what is no address or cannot be written as one.
    init?(_ raw: String) {
        guard raw.utf8.count <= 254, let at = raw.lastIndex(of: "@"),
            !raw.unicodeScalars.contains(where: Self.isForeign)
        else { return nil }
        let (local, domain) = (raw[..<at], raw[raw.index(after: at)...])
        guard !local.isEmpty, Self.isDomain(domain) else { return nil }
        text = (Self.isDotAtom(local) ? String(local) : HeaderText.quoted(local)) + "@" + domain
        self.domain = String(domain)
    }

    /// White space and whatever is not to be seen.
    private static func isForeign(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse: true
        default: scalar.properties.isWhitespace
        }
    }

    private static func isDomain(_ text: Substring) -> Bool {
        if text.hasPrefix("["), text.hasSuffix("]") {
            return text.utf8.count > 2 && text.utf8.dropFirst().dropLast().allSatisfy { $0.isASCIIDigit || $0.isASCIILetter || $0 == 46 || $0 == 58 }
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

/// The sender: an address, and the name before it (RFC 5322 §3.4).
package struct Sender: Sendable, Hashable {
    package let name: String?
    let address: MailAddress

    /// `Tollgate <no-reply@example.org>`, or the address alone.
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

    /// As a header carries it.
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
