internal import Wire

/// A telephone number in international form (E.164): `+` and 7 to 15 digits.
package struct PhoneNumber: Sendable, Hashable {
    package let text: String

    /// Spaces, dashes, dots and brackets between the digits are left out; anything else is a fault.
    package init(_ raw: String) throws(AccountError) {
        guard raw.utf8.count <= 64 else { throw .malformedPhone }
        let kept = raw.filter { !" -.()".contains($0) }
        let digits = kept.utf8.dropFirst()
        guard kept.first == "+", (7...15).contains(digits.count), digits.first != UInt8(ascii: "0"),
            digits.allSatisfy(\.isASCIIDigit)
        else { throw .malformedPhone }
        text = kept
    }

    /// A number that was one when it was stored.
    package init(stored text: String) { self.text = text }
}

/// Where a message goes, and what its receiver proves to own.
package enum Recipient: Sendable, Hashable {
    case email(EmailAddress)
    case phone(PhoneNumber)

    /// What recipients are compared by. The two kinds never meet: a number has no `@`.
    package var key: String {
        switch self {
        case .email(let email): email.key
        case .phone(let phone): phone.text
        }
    }
}
