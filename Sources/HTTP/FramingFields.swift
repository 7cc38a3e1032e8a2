import Wire

extension FieldTable {
    /// Whether a field speaks of the message's length.
    @inline(__always)
    var hasFraming: Bool { present & (FieldName.contentLength.bit | FieldName.transferEncoding.bit) != 0 }

    /// Holds the message to a single `Transfer-Encoding: chunked`, the only coding that is understood (RFC 9112 §6.1).
    func checkChunked(_ bytes: RawSpan) throws(HeadStop) {
        guard !isRepeated(.transferEncoding), let index = first(.transferEncoding) else {
            throw .fault(.transferEncoding)
        }
        let value = bytes[self[index].value]
        if value.equalsIgnoringCase("chunked") { return }
        // A well-formed coding that is not ours is 501; a list that does not end in `chunked`, or repeats it, has no
        // length at all (§6.3), and parameters have no place on `chunked`.
        var elements = ListElements(value)
        var codings = 0
        var chunked = 0
        var endsChunked = false
        while let element = elements.next() {
            guard !element.isEmpty, ByteClass.areTokens(element, 0..<element.byteCount) else {
                throw .fault(.transferEncoding)
            }
            endsChunked = element.equalsIgnoringCase("chunked")
            codings += 1
            if endsChunked { chunked += 1 }
        }
        let isUnknown = chunked == 0 || chunked == 1 && codings > 1 && endsChunked
        throw .fault(isUnknown ? .unknownTransferCoding : .transferEncoding)
    }

    /// The number of a request's `Content-Length`, which must be there once (RFC 9112 §6.3), in plain digits without
    /// leading zeros, which some parsers take for octal.
    func soleContentLength(_ bytes: RawSpan) throws(HeadStop) -> UInt64 {
        guard !isRepeated(.contentLength), let index = first(.contentLength) else {
            throw .fault(.duplicateContentLength)
        }
        let value = bytes[self[index].value]
        guard let number = value.decimal, value.byteCount == 1 || value[0] != UInt8(ascii: "0") else {
            throw .fault(.contentLength)
        }
        return number
    }

    /// The number that every `Content-Length` of a response agrees on; nil if there is none.
    func agreedContentLength(_ bytes: RawSpan) throws(HeadStop) -> UInt64? {
        guard let first = first(.contentLength) else { return nil }
        guard isRepeated(.contentLength) else {
            guard let number = bytes[self[first].value].decimal else { throw .fault(.contentLength) }
            return number
        }
        var agreed: UInt64?
        for index in 0..<count where self[index].known == .contentLength {
            guard let number = bytes[self[index].value].decimal else { throw .fault(.contentLength) }
            if let agreed, agreed != number { throw .fault(.duplicateContentLength) }
            agreed = number
        }
        return agreed
    }
}

extension RawSpan {
    /// The number that one to 18 decimal digits and nothing else spell.
    var decimal: UInt64? {
        guard (1...18).contains(byteCount) else { return nil }
        var number: UInt64 = 0
        for offset in 0..<byteCount {
            guard self[offset].isASCIIDigit else { return nil }
            number = number &* 10 &+ UInt64(self[offset] &- 48)
        }
        return number
    }
}
