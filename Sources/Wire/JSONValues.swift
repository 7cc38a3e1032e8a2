extension JSONReader {
    /// The source bytes of a text or number, escapes included.
    @_lifetime(copy self)
    package func source(_ slice: Slice) -> RawSpan { bytes[slice] }

    /// Whether `text`, unescaped, is `other`.
    package func text(_ text: JSONText, equals other: RawSpan) -> Bool {
        guard text.hasEscapes else { return bytes[text.slice].equals(other) }
        guard !text.hasHalves else { return false }
        var plain = ByteBuffer(capacity: Int(text.slice.count))
        unescape(text, into: &plain)
        return plain.readable.equals(other)
    }

    package func text(_ text: JSONText, equals other: StaticString) -> Bool {
        self.text(text, equals: other.rawBytes)
    }

    /// Unescapes `text` and appends it to `out`: UTF-8, never more bytes than the source. Half a surrogate pair becomes U+FFFD.
    package func unescape(_ text: JSONText, into out: inout ByteBuffer) {
        let inner = bytes[text.slice]
        guard text.hasEscapes else { return out.append(inner) }
        // With the closing quote, which shows that a half at the end has no other.
        let quoted = bytes.extracting(Int(text.slice.start)..<text.slice.end + 1)
        var offset = 0
        while offset < inner.byteCount {
            let next = inner.firstIndex(of: UInt8(ascii: "\\"), from: offset) ?? inner.byteCount
            out.append(inner.extracting(offset..<next))
            offset = next
            guard offset < inner.byteCount else { return }
            offset += Self.appendUnescaped(quoted, at: offset, to: &out)
        }
    }

    /// Appends the scalar of the escape at `offset`; returns the escape's length.
    private static func appendUnescaped(_ text: RawSpan, at offset: Int, to out: inout ByteBuffer) -> Int {
        do {
            let escape = try JSONEscape(in: text, at: offset, takesHalves: true)
            out.append(scalar: Unicode.Scalar(escape.scalar) ?? "\u{FFFD}")
            return escape.length
        } catch {
            preconditionFailure("a text that this reader did not hand out: \(error)")
        }
    }

    /// `text`, unescaped, as a string.
    package func string(_ text: JSONText) -> String {
        guard text.hasEscapes else { return bytes[text.slice].text }
        var plain = ByteBuffer(capacity: Int(text.slice.count))
        unescape(text, into: &plain)
        return plain.readable.text
    }

    /// The number at `slice` if it is an integer that fits, however it is written: `3`, `3.0`, `30e-1`; else nil.
    package func integer(_ slice: Slice) -> Int64? {
        let number = JSONNumber(bytes[slice])
        return number.isWhole ? number.truncated : nil
    }

    /// The number at `slice` rounded down to an integer; nil if that does not fit.
    package func floor(_ slice: Slice) -> Int64? {
        let number = JSONNumber(bytes[slice])
        guard let truncated = number.truncated, !number.isWhole, number.isNegative else { return number.truncated }
        let (floor, overflow) = truncated.subtractingReportingOverflow(1)
        return overflow ? nil : floor
    }
}

/// A JSON number, evaluated exactly, without floating point.
struct JSONNumber {
    var isNegative = false
    /// The number rounded towards zero; nil if that does not fit.
    var truncated: Int64?
    /// Whether the fraction is zero.
    var isWhole = true

    /// `text` must follow the grammar, as every number token does.
    init(_ text: RawSpan) {
        isNegative = text.byteCount > 0 && text[0] == UInt8(ascii: "-")
        let exponentMark = Self.exponentMark(in: text)
        let pointShift = Self.exponent(in: text, from: exponentMark + 1)
        var digitsBeforePoint = 0
        for offset in 0..<exponentMark where text[offset].isASCIIDigit {
            digitsBeforePoint += 1
            if offset + 1 < exponentMark && text[offset + 1] == UInt8(ascii: ".") { break }
        }
        read(text, upTo: exponentMark, wholeDigits: digitsBeforePoint + pointShift)
    }

    /// Evaluates the first `wholeDigits` digits, padded with zeros, and checks the others for a fraction.
    private mutating func read(_ text: RawSpan, upTo end: Int, wholeDigits: Int) {
        var position = 0
        var magnitude: UInt64? = 0
        for offset in 0..<end where text[offset].isASCIIDigit {
            let digit = UInt64(text[offset] - 48)
            if position < wholeDigits { magnitude = Self.append(digit, to: magnitude) } else if digit != 0 { isWhole = false }
            position += 1
        }
        // A zero stays zero however many zeros follow; anything else overflows within twenty steps.
        while position < wholeDigits, let known = magnitude, known != 0 {
            magnitude = Self.append(0, to: magnitude)
            position += 1
        }
        if let magnitude { truncated = signed(magnitude) }
    }

    private func signed(_ magnitude: UInt64) -> Int64? {
        if isNegative && magnitude == Int64.min.magnitude { return Int64.min }
        return Int64(exactly: magnitude).map { isNegative ? -$0 : $0 }
    }

    private static func append(_ digit: UInt64, to magnitude: UInt64?) -> UInt64? {
        guard let magnitude else { return nil }
        let (product, overflow) = magnitude.multipliedReportingOverflow(by: 10)
        let (sum, carry) = product.addingReportingOverflow(digit)
        return overflow || carry ? nil : sum
    }

    private static func exponentMark(in text: RawSpan) -> Int {
        for offset in 0..<text.byteCount where text[offset] | 0x20 == UInt8(ascii: "e") { return offset }
        return text.byteCount
    }

    /// The exponent from `start` on, clamped to a billion; 0 if there is none.
    private static func exponent(in text: RawSpan, from start: Int) -> Int {
        guard start < text.byteCount else { return 0 }
        var magnitude = 0
        for offset in start..<text.byteCount where text[offset].isASCIIDigit {
            magnitude = min(magnitude * 10 + Int(text[offset] - 48), 1_000_000_000)
        }
        return text[start] == UInt8(ascii: "-") ? -magnitude : magnitude
    }
}
