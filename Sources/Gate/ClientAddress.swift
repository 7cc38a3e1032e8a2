import HTTP
package import Wire

/// The other end of the connection; with the PROXY protocol, as its header says.
package struct Peer: Sendable, Equatable {
    /// 127.0.0.1 for a unix socket.
    package var address: IPAddress
    package var port: UInt16
    package var isTLS: Bool
    package var isUnix: Bool
    /// DNS names and URIs of the verified client certificate; those in a PROXY protocol header are ignored.
    package var certificateNames: [String]

    package init(
        address: IPAddress, port: UInt16 = 0, isTLS: Bool = false, isUnix: Bool = false, certificateNames: [String] = []
    ) {
        self.address = address
        self.port = port
        self.isTLS = isTLS
        self.isUnix = isUnix
        self.certificateNames = certificateNames
    }
}

/// The client's address, behind trusted proxies.
package struct ClientAddress: Equatable, Sendable {
    package var address: IPAddress
    /// False if the forwarding fields are unreadable, obfuscated, or `X-Forwarded-For` and `Forwarded` disagree. `address`
    /// may then be used for limits, but does not prove that a caller is internal.
    package var isCertain: Bool
    /// Whether the peer is a trusted proxy, whose other forwarding fields and request id are accepted too.
    package var peerIsTrusted: Bool

    package init(address: IPAddress, isCertain: Bool = true, peerIsTrusted: Bool = false) {
        self.address = address
        self.isCertain = isCertain
        self.peerIsTrusted = peerIsTrusted
    }

    /// The first address, from the peer backwards, that is not a trusted proxy; the farthest one if all are.
    ///
    /// Uses `X-Forwarded-For` where it is sent, otherwise `Forwarded` (RFC 7239). Both are read from right to left, because
    /// everything to the left of an untrusted address is that sender's claim.
    static func resolve(
        _ head: borrowing RequestHead, _ bytes: RawSpan, peer: Peer, trusted: [CIDR]
    ) -> ClientAddress {
        guard contains(trusted, peer.address) else { return ClientAddress(address: peer.address) }
        var listed = ForwardedWalk(peer.address)
        var forwarded = ForwardedWalk(peer.address)
        var index = head.fields.count - 1
        while index >= 0 {
            let field = head.fields[index]
            if field.known == .xForwardedFor { listed.walkList(bytes[field.value], trusted) }
            if field.known == .forwarded { forwarded.walkForwarded(bytes[field.value], trusted) }
            index -= 1
        }
        let chosen = listed.wasFed || !forwarded.wasFed ? listed : forwarded
        let agrees = !listed.wasFed || !forwarded.wasFed || listed.address == forwarded.address
        return ClientAddress(address: chosen.address, isCertain: chosen.isCertain && agrees, peerIsTrusted: true)
    }

    fileprivate static func contains(_ blocks: [CIDR], _ address: IPAddress) -> Bool {
        for block in blocks where block.contains(address) { return true }
        return false
    }
}

/// One walk from the peer towards the client, over fields from the last to the first.
private struct ForwardedWalk {
    /// Farthest address reached.
    var address: IPAddress
    var isCertain = true
    var wasFed = false
    private var isOver = false

    init(_ peer: IPAddress) { address = peer }

    /// Moves to the next hop; every address so far was trusted.
    private mutating func step(_ hop: IPAddress?, _ trusted: [CIDR]) {
        guard let hop else {
            isCertain = false
            isOver = true
            return
        }
        address = hop
        isOver = !ClientAddress.contains(trusted, hop)
    }

    /// Reads a value of `X-Forwarded-For`.
    mutating func walkList(_ value: RawSpan, _ trusted: [CIDR]) {
        wasFed = true
        var end = value.byteCount
        while !isOver && end >= 0 {
            var start = end
            while start > 0 && value[start - 1] != UInt8(ascii: ",") { start -= 1 }
            step(Self.node(Self.trimmed(value.extracting(start..<end))), trusted)
            end = start - 1
        }
    }

    /// Reads a value of `Forwarded`. Elements are split from the left, because quotes can only be parsed that way, and read
    /// from the right. More than 32 elements make the address uncertain.
    mutating func walkForwarded(_ value: RawSpan, _ trusted: [CIDR]) {
        wasFed = true
        guard !isOver else { return }
        var elements = InlineArray<32, Slice>(repeating: Slice())
        var count = 0
        var start = 0
        while start <= value.byteCount {
            guard count < 32, let end = Self.end(value, start, UInt8(ascii: ",")) else { return step(nil, trusted) }
            elements[count] = Slice(start: start, count: end - start)
            count += 1
            start = end + 1
        }
        while !isOver && count > 0 {
            count -= 1
            step(Self.forwardedFor(value[elements[count]]), trusted)
        }
    }

    /// End of the part that begins at `start`: at `separator` outside quotes, or at the end of the value. nil for an open
    /// quote.
    private static func end(_ value: RawSpan, _ start: Int, _ separator: UInt8) -> Int? {
        var offset = start
        var isQuoted = false
        while offset < value.byteCount {
            let byte = value[offset]
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if isQuoted && byte == UInt8(ascii: "\\") { offset += 1 }
            if !isQuoted && byte == separator { return offset }
            offset += 1
        }
        return isQuoted ? nil : value.byteCount
    }

    /// The address of an element's only `for=`; nil if there is none, several, or not an address.
    private static func forwardedFor(_ element: RawSpan) -> IPAddress? {
        var found: IPAddress?
        var start = 0
        while start <= element.byteCount {
            guard let end = end(element, start, UInt8(ascii: ";")) else { return nil }
            let pair = trimmed(element.extracting(start..<end))
            if pair.byteCount > 4, pair.extracting(0..<4).equalsIgnoringCase("for=") {
                guard found == nil, let address = node(unquoted(pair.dropping(4))) else { return nil }
                found = address
            }
            start = end + 1
        }
        return found
    }

    @_lifetime(copy value)
    private static func unquoted(_ value: RawSpan) -> RawSpan {
        let count = value.byteCount
        guard count >= 2, value[0] == UInt8(ascii: "\""), value[count - 1] == UInt8(ascii: "\"") else { return value }
        return value.extracting(1..<count - 1)
    }

    @_lifetime(copy value)
    private static func trimmed(_ value: RawSpan) -> RawSpan {
        var start = 0
        var end = value.byteCount
        while start < end, value[start] == 0x20 || value[start] == 0x09 { start += 1 }
        while end > start, value[end - 1] == 0x20 || value[end - 1] == 0x09 { end -= 1 }
        return value.extracting(start..<end)
    }

    /// Parses an address, with or without brackets and port.
    private static func node(_ text: RawSpan) -> IPAddress? {
        let count = text.byteCount
        guard count > 0 else { return nil }
        if text[0] == UInt8(ascii: "[") {
            guard let close = text.firstIndex(of: UInt8(ascii: "]")), isPort(text.dropping(close + 1)) else { return nil }
            let address = IPAddress(parsing: text.extracting(1..<close))
            return address
        }
        if let address = IPAddress(parsing: text) { return address }
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")), isPort(text.dropping(colon)) else { return nil }
        return IPAddress(parsing: text.extracting(0..<colon))
    }

    /// Whether `text` is empty, or a colon and digits.
    private static func isPort(_ text: RawSpan) -> Bool {
        guard text.byteCount > 0 else { return true }
        guard text[0] == UInt8(ascii: ":"), (2...6).contains(text.byteCount) else { return false }
        for offset in 1..<text.byteCount where !text[offset].isASCIIDigit { return false }
        return true
    }
}
