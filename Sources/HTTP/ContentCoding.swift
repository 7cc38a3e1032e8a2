internal import Wire

/// A content coding (RFC 9110 §8.4.1). The raw values are those of `CCodings`.
package enum ContentCoding: UInt8, Sendable, CaseIterable {
    case identity, gzip, deflate, br, zstd

    /// The name in fields and settings.
    package var name: StaticString {
        switch self {
        case .identity: "identity"
        case .gzip: "gzip"
        case .deflate: "deflate"
        case .br: "br"
        case .zstd: "zstd"
        }
    }

    /// The coding of this name, in any case.
    package init?(named name: RawSpan) {
        if name.equalsIgnoringCase("x-gzip") {
            self = .gzip
            return
        }
        for coding in Self.allCases where name.equalsIgnoringCase(coding.name) {
            self = coding
            return
        }
        return nil
    }

    /// The coding of a message's content; nil for codings that cannot be decoded, and for several at once.
    package init?(_ fields: borrowing FieldTable, _ bytes: RawSpan) {
        guard let index = fields.first(.contentEncoding) else {
            self = .identity
            return
        }
        guard !fields.isRepeated(.contentEncoding) else { return nil }
        let value = bytes[fields[index].value]
        self = .identity
        if value.isEmpty { return }
        self.init(named: value)
    }
}

/// The weights that `Accept-Encoding` gives to codings (RFC 9110 §12.5.3).
package struct AcceptedCodings: Equatable, Sendable {
    /// Of each coding in thousandths, by its raw value; -1 if it is not named.
    private var weights = SIMD8<Int16>(repeating: -1)
    /// The place of `*` among them.
    private static let others = 7

    /// Without the field, or with one that is malformed, no coding is asked for.
    package init(_ fields: borrowing FieldTable, _ bytes: RawSpan) {
        guard fields.contains(.acceptEncoding) else { return }
        for index in 0..<fields.count where fields[index].known == .acceptEncoding {
            guard read(list: bytes[fields[index].value]) else { return }
        }
    }

    /// The same, of the field's values.
    init(_ values: [String]) {
        for value in values where !read(list: Array(value.utf8).rawBytes) { return }
    }

    /// Notes the codings of a list. False if it is malformed; then none is asked for.
    private mutating func read(list: RawSpan) -> Bool {
        var elements = ListElements(list)
        while let element = elements.next() {
            guard element.isEmpty || read(element) else {
                weights = SIMD8(repeating: -1)
                return false
            }
        }
        return true
    }

    /// Notes a coding, at its first place. Returns whether the element has the form of one.
    private mutating func read(_ element: RawSpan) -> Bool {
        let end = element.firstIndex(of: UInt8(ascii: ";")) ?? element.byteCount
        let name = element.extracting(0..<end).trimmed
        guard !name.isEmpty, ByteClass.areTokens(name, 0..<name.byteCount) else { return false }
        let weight = end < element.byteCount ? Self.weight(element.extracting(end + 1..<element.byteCount).trimmed) : 1_000
        guard let weight else { return false }
        let place = name.equals("*") ? Self.others : ContentCoding(named: name).map { Int($0.rawValue) }
        if let place, weights[place] < 0 { weights[place] = weight }
        return true
    }

    /// `q=0` to `q=1` with up to three decimals, in thousandths; nil for anything else.
    private static func weight(_ text: RawSpan) -> Int16? {
        guard text.byteCount >= 3, text.byteCount <= 7, text.extracting(0..<2).equalsIgnoringCase("q=") else { return nil }
        var value: Int16 = 0
        for offset in 0..<5 {
            let byte = offset + 2 < text.byteCount ? text[offset + 2] : nil
            if offset == 1 {
                guard byte == nil || byte == UInt8(ascii: ".") else { return nil }
                continue
            }
            guard byte == nil || byte!.isASCIIDigit else { return nil }
            value = value * 10 + Int16((byte ?? UInt8(ascii: "0")) - UInt8(ascii: "0"))
        }
        return value <= 1_000 ? value : nil
    }

    /// The coding of these that the client likes best, the first of several; identity if it likes that better than all of them.
    package func best(of codings: [ContentCoding]) -> ContentCoding {
        var best = ContentCoding.identity
        // Not named, identity is what is left if no other is accepted.
        var most = max(weight(of: .identity), 1)
        for coding in codings {
            let weight = weight(of: coding)
            if best == .identity ? weight >= most : weight > most { (best, most) = (coding, weight) }
        }
        return best
    }

    /// Whether the client refuses content as it is.
    package var refusesIdentity: Bool { weight(of: .identity) == 0 }

    private func weight(of coding: ContentCoding) -> Int16 {
        let named = weights[Int(coding.rawValue)]
        return named < 0 ? weights[Self.others] : named
    }
}

extension RawSpan {
    /// Without the white space around it.
    fileprivate var trimmed: RawSpan {
        @_lifetime(copy self) get {
            var (start, end) = (0, byteCount)
            while start < end, ByteClass.isBlank(self[start]) { start += 1 }
            while end > start, ByteClass.isBlank(self[end - 1]) { end -= 1 }
            return extracting(start..<end)
        }
    }
}
