import Wire

/// Scopes (RFC 6749, 3.3): what a token may be used for.
package enum ScopeName {
    /// Whether `text` is a scope: visible ASCII without quotes and backslashes.
    package static func isValid(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }
}

extension Trust {
    /// A bit mask: bit n is set if the claims have scope n. Scopes are the words of `scope` or `scp`, or the strings of a list there.
    func scopeMask(_ claims: borrowing JSONMembers) -> UInt64 {
        scopeNames.isEmpty ? 0 : mask(claims["scope"], claims) | mask(claims["scp"], claims)
    }

    private func mask(_ value: JSONMembers.Value?, _ claims: borrowing JSONMembers) -> UInt64 {
        var words = ByteBuffer()
        if case .string(let text)? = value { claims.append(text, to: &words) }
        var mask: UInt64 = 0
        for index in scopeNames.indices {
            let name = scopeNames[index]
            let isThere =
                switch value {
                case .string?: words.readable.hasWord(name.rawBytes)
                case .array(let slice)?: claims.value(.array(slice), equals: name.rawBytes, stringsOnly: true)
                case nil, .halved?, .number?, .bool?, .null?, .object?: false
                }
            if isThere { mask |= 1 << UInt64(index) }
        }
        return mask
    }
}

extension RawSpan {
    /// Whether one of the words between spaces is `wanted`.
    fileprivate func hasWord(_ wanted: RawSpan) -> Bool {
        var start = 0
        for offset in 0...byteCount where offset == byteCount || self[offset] == 0x20 {
            if extracting(start..<offset).equals(wanted) { return true }
            start = offset + 1
        }
        return false
    }
}
