import Wire

extension RequestHead {
    /// Finds the one authority that the request is for (RFC 9112 §3.2, RFC 9110 §7.2).
    @inline(__always)
    mutating func findHost(_ bytes: RawSpan) throws(HeadStop) {
        hostname = Slice()
        guard let first = fields.first(.host) else {
            guard minorVersion == 0 else { throw .fault(.missingHost) }
            if form == .absolute { hostname = try bytes.hostname(of: host) }
            return
        }
        guard !fields.isRepeated(.host) else { throw .fault(.duplicateHost) }
        let value = fields[first].value
        hostname = try bytes.hostname(of: value)
        // The target would win over the field; two that differ can only be meant to be read differently.
        if form == .absolute, !bytes[host].equalsIgnoringCase(bytes[value]) { throw .fault(.hostMismatch) }
        host = value
    }
}

extension RawSpan {
    /// The name or bracketed address in `authority`, a host with an optional port; no user information, never empty. A name has
    /// no empty label but that of the root behind a final dot: what `a..` names is read differently from server to server.
    @inline(__always)
    func hostname(of authority: Slice) throws(HeadStop) -> Slice {
        let start = Int(authority.start)
        var end = start
        var isAfterDot = true
        // Eight bytes at a time, as far as they are what nearly all names are made of.
        while end < authority.end {
            let count = min(authority.end &- end, 8)
            guard let endsInDot = ByteScan.hostEnd(loadUpTo8(end, count) | ByteScan.plainFilling(count), isAfterDot) else { break }
            isAfterDot = endsInDot
            end &+= count
        }
        while end < authority.end, ByteClass.isHost(self[end]) {
            let isDot = self[end] == UInt8(ascii: ".")
            if isDot && isAfterDot { throw .fault(.invalidHost) }
            isAfterDot = isDot
            end &+= 1
        }
        if end == start { end = try endOfAddress(authority) }
        if end < authority.end { try checkPort(end..<authority.end) }
        return Slice(from: start, to: end)
    }

    /// The end of an IPv6 address in brackets at the start of `authority`.
    private func endOfAddress(_ authority: Slice) throws(HeadStop) -> Int {
        let start = Int(authority.start)
        guard !authority.isEmpty, self[start] == UInt8(ascii: "["),
            let length = self[authority].firstIndex(of: UInt8(ascii: "]")),
            let address = IPAddress(parsing: extracting(start + 1..<start + length)),
            !address.isIPv4 || extracting(start + 1..<start + length).firstIndex(of: UInt8(ascii: ":")) != nil
        else { throw .fault(.invalidHost) }
        return start + length + 1
    }

    /// `:` and a number up to 65535.
    private func checkPort(_ range: Range<Int>) throws(HeadStop) {
        guard self[range.lowerBound] == UInt8(ascii: ":"), (2...6).contains(range.count) else {
            throw .fault(.invalidHost)
        }
        var port = 0
        for offset in range.dropFirst() {
            guard self[offset].isASCIIDigit else { throw .fault(.invalidHost) }
            port = port * 10 + Int(self[offset] - 48)
        }
        guard port <= 65535 else { throw .fault(.invalidHost) }
    }
}
