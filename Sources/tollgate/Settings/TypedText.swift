package import Gate
package import Wire

/// What is wrong with a text and what would be right, as the words behind the text itself:
/// `is no duration, write one like 10s`.
package struct Complaint: Error, Hashable, Sendable {
    package let text: String
    package init(_ text: String) { self.text = text }
}

/// The types that settings and options of lines share, read from text.
package enum TypedText {
    package static func count(_ text: String, _ range: ClosedRange<Int>) throws(Complaint) -> Int {
        guard !text.isEmpty, text.utf8.count <= 18, text.utf8.allSatisfy({ $0.isASCIIDigit }), let value = Int(text) else {
            throw Complaint("is no whole number, write one from \(range.lowerBound) to \(range.upperBound)")
        }
        guard range.contains(value) else {
            throw Complaint("is out of range, write a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    /// Milliseconds.
    package static func duration(_ text: String, _ range: ClosedRange<UInt64>) throws(Complaint) -> UInt64 {
        guard let value = DurationText.parse(text) else {
            throw Complaint("is no duration, write one like 500ms, 10s, 5m, 24h or 30d")
        }
        guard range.contains(value) else {
            throw Complaint("is out of range, write a duration from \(DurationText.text(range.lowerBound)) to \(DurationText.text(range.upperBound))")
        }
        return value
    }

    /// Bytes.
    package static func size(_ text: String) throws(Complaint) -> UInt64 {
        guard let value = SizeText.parse(text) else {
            throw Complaint("is no size, write one like 512, 64KiB or 10MiB")
        }
        return value
    }

    /// Of what is counted once for all gateways: nothing of it is held in advance.
    package static func rate(_ text: String) throws(Complaint) -> LimitRate {
        guard let rate = LimitRate(parsing: text), !rate.mayLease else {
            throw Complaint("is no rate, write one like 300/h or 300/h+burst=100")
        }
        return rate
    }

    package static func choice(_ text: String, _ choices: [String]) throws(Complaint) -> String {
        guard choices.contains(text) else { throw Complaint("is not known, write \(alternatives(choices))") }
        return text
    }

    /// An absolute `http` or `https` URL with a host, as it stands.
    package static func webURL(_ text: String) throws(Complaint) -> String {
        let scheme = text.hasPrefix("https://") ? 8 : text.hasPrefix("http://") ? 7 : 0
        guard scheme > 0 else { throw Complaint("is no URL, write one like https://example.org/path") }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") }) else {
            throw Complaint("holds characters that no URL has, percent-encode them")
        }
        let rest = text.utf8.dropFirst(scheme)
        let authority = String(decoding: rest.prefix { !UInt8.endsAuthority($0) }, as: UTF8.self)
        _ = try Authority(authority, defaultPort: 80)
        return text
    }

    package static func network(_ text: String) throws(Complaint) -> CIDR {
        guard let network = CIDR(parsing: text) else {
            throw Complaint("is no network, write one like 10.0.0.0/8 or fd00::/8")
        }
        return network
    }

    /// The name of a host without a port, in lower case.
    package static func hostName(_ text: String) throws(Complaint) -> String {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        let isName = labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && label.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 45 || $0 == 95 }
        }
        guard isName, text.utf8.count <= 253 else {
            throw Complaint("is no name of a host, write one like gateway.example.org, without a port")
        }
        return text.lowercased()
    }

    /// A lower-case name of a tier, a claim's value and the like: letters, digits, `-`, `_` and `.`.
    package static func name(_ text: String) throws(Complaint) -> String {
        let fits = text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 45 || $0 == 46 || $0 == 95 }
        guard fits, !text.isEmpty, text.utf8.count <= 64 else {
            throw Complaint("is no name, use up to 64 letters, digits, - and _")
        }
        return text
    }

    /// `a, b or c`.
    package static func alternatives(_ words: [String]) -> String {
        guard words.count > 1, let last = words.last else { return words.first ?? "" }
        return "\(words.dropLast().joined(separator: ", ")) or \(last)"
    }
}

/// Host and port of a URL.
package struct Authority: Hashable, Sendable {
    /// Lower case; an IPv6 address without its brackets.
    package let host: String
    package let port: UInt16
    package let isIPv6: Bool

    package init(_ text: String, defaultPort: UInt16) throws(Complaint) {
        guard !text.contains("@") else { throw Complaint("carries a user or a password, remove the part before the @") }
        let bytes = Array(text.utf8)
        var end = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.count
        if bytes.first == UInt8(ascii: "[") {
            guard let close = bytes.firstIndex(of: UInt8(ascii: "]")) else {
                throw Complaint("has an opening bracket and no closing one, write an IPv6 address like [::1]")
            }
            let literal = Array(bytes[1..<close])
            guard let address = IPAddress(parsing: literal.rawBytes), !address.isIPv4 else {
                throw Complaint("holds no IPv6 address between its brackets, write one like [::1]")
            }
            end = close + 1
            host = String(decoding: literal, as: UTF8.self).lowercased()
            isIPv6 = true
        } else {
            guard end > 0, end <= 253, bytes[..<end].allSatisfy(\.isHostByte) else {
                throw Complaint("has no usable host, write a name or an address, like http://127.0.0.1:9001")
            }
            host = String(decoding: bytes[..<end], as: UTF8.self).lowercased()
            isIPv6 = false
        }
        port = try Self.port(bytes[end...], defaultPort)
    }

    private static func port(_ rest: ArraySlice<UInt8>, _ defaultPort: UInt16) throws(Complaint) -> UInt16 {
        guard let colon = rest.first else { return defaultPort }
        let digits = rest.dropFirst()
        guard colon == UInt8(ascii: ":"), !digits.isEmpty, digits.allSatisfy(\.isASCIIDigit),
            let port = UInt16(String(decoding: digits, as: UTF8.self)), port > 0
        else { throw Complaint("has no usable port, write one from 1 to 65535") }
        return port
    }
}

extension UInt8 {
    fileprivate var isHostByte: Bool { isASCIILetter || isASCIIDigit || self == 45 || self == 46 || self == 95 }
    fileprivate static func endsAuthority(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }
}
