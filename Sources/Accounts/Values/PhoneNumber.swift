internal import Wire

/// A telephone number in international form (E.164): `+` and 7 to 15 digits.
package struct PhoneNumber: Sendable, Hashable {
    package let text: String

    /// Removes spaces, dashes, dots and brackets between the digits; throws for anything else.
    package init(_ raw: String) throws(MalformedText) {
        guard raw.utf8.count <= 64 else { throw MalformedText() }
        let kept = raw.filter { !" -.()".contains($0) }
        let digits = kept.utf8.dropFirst()
        guard kept.first == "+", (7...15).contains(digits.count), digits.first != UInt8(ascii: "0"),
            digits.allSatisfy(\.isASCIIDigit)
        else { throw MalformedText() }
        text = kept
    }

    /// A number from the store; not checked again.
    package init(stored text: String) { self.text = text }
}

/// The address of a message, which its receiver can prove to own.
package enum Recipient: Sendable, Hashable {
    case email(EmailAddress)
    case phone(PhoneNumber)

    /// The text by which recipients are compared. The kinds cannot collide: a number has no `@`.
    package var key: String {
        switch self {
        case .email(let email): email.key
        case .phone(let phone): phone.text
        }
    }

    /// As it is written to.
    package var text: String {
        switch self {
        case .email(let email): email.text
        case .phone(let phone): phone.text
        }
    }

    /// From the text in a store.
    package init(stored text: String) {
        self = text.utf8.contains(UInt8(ascii: "@")) ? .email(EmailAddress(stored: text)) : .phone(PhoneNumber(stored: text))
    }
}
