import Wire

/// The connection options of a message (RFC 9110 §7.6.1).
struct ConnectionOptions {
    var close = false
    var keepAlive = false

    init() {}

    /// The value that nearly all clients send: one of the two options, alone. Nil for anything else.
    @inline(__always)
    init?(sole value: Slice, _ bytes: RawSpan) {
        let start = Int(value.start)
        // The words of `close` and `keep-alive`, the first letter lowest. No control stands in a value, so setting the
        // bit of a small letter makes only letters alike.
        if value.count == 5 {
            close = bytes.loadUpTo8(start, 5) | 0x20_2020_2020 == 0x65_736F_6C63
        } else if value.count == 10 {
            let first = bytes.loadUpTo8(start, 8) | 0x2020_2020_2020_2020
            keepAlive = first == 0x696C_612D_7065_656B && bytes.loadUpTo8(start &+ 8, 2) | 0x2020 == 0x6576
        }
        guard close || keepAlive else { return nil }
    }
}

extension FieldTable {
    /// Names in `Connection` beyond which it is a fault: each costs a search of all fields.
    static let maxNominations = 32

    /// Reads all `Connection` fields (RFC 9110 §7.6.1) and marks the fields that they name.
    @inline(__always)
    mutating func readConnection(_ bytes: RawSpan) throws(HeadStop) -> ConnectionOptions {
        guard let index = first(.connection) else { return ConnectionOptions() }
        if !isRepeated(.connection), let options = ConnectionOptions(sole: entries[index].value, bytes) {
            return options
        }
        return try readConnectionFields(bytes)
    }

    private mutating func readConnectionFields(_ bytes: RawSpan) throws(HeadStop) -> ConnectionOptions {
        var options = ConnectionOptions()
        var nominations = 0
        for index in 0..<count where self[index].known == .connection {
            var elements = ListElements(bytes[self[index].value])
            while let element = elements.next() {
                if element.isEmpty { continue }
                guard ByteClass.areTokens(element, 0..<element.byteCount) else { throw .fault(.connection) }
                if element.equalsIgnoringCase("close") {
                    options.close = true
                } else if element.equalsIgnoringCase("keep-alive") {
                    options.keepAlive = true
                } else {
                    nominations += 1
                    guard nominations <= Self.maxNominations else { throw .fault(.connection) }
                    try nominate(element, bytes)
                }
            }
        }
        return options
    }

    /// Marks the fields called `name`. Naming a framing field or `Host` is a fault: it would make the next hop read another message.
    private mutating func nominate(_ name: RawSpan, _ bytes: RawSpan) throws(HeadStop) {
        let known = FieldName.recognise(name)
        if known == .contentLength || known == .transferEncoding || known == .host { throw .fault(.connection) }
        for index in 0..<count where bytes[entries[index].name].equalsIgnoringCase(name) {
            entries[index].isNominated = true
        }
    }

    /// For how many seconds the server keeps the connection open between two requests: `Keep-Alive: timeout=5` (RFC 2068 §19.7.1.1), a day
    /// at most; nil if it does not say.
    func keepAliveSeconds(_ bytes: RawSpan) -> UInt32? {
        guard let index = first(.keepAlive) else { return nil }
        var parameters = ListElements(bytes[self[index].value])
        while let parameter = parameters.next() {
            guard parameter.byteCount > 8, parameter.extracting(0..<8).equalsIgnoringCase("timeout=") else { continue }
            var seconds: UInt32 = 0
            for offset in 8..<parameter.byteCount {
                guard parameter[offset].isASCIIDigit else { return nil }
                seconds = min(seconds &* 10 &+ UInt32(parameter[offset] &- 48), 86_400)
            }
            return seconds
        }
        return nil
    }

    /// Whether the message waits for `100 Continue`; there is no other expectation (RFC 9110 §10.1.1).
    @inline(__always)
    func expectsContinue(_ bytes: RawSpan) throws(HeadStop) -> Bool {
        guard contains(.expect) else { return false }
        for index in 0..<count where self[index].known == .expect {
            guard bytes[self[index].value].equalsIgnoringCase("100-continue") else { throw .fault(.expectation) }
        }
        return true
    }
}

/// The elements of a comma-separated list (RFC 9110 §5.6.1), without the white space around them; empty ones too.
package struct ListElements: ~Escapable {
    private let list: RawSpan
    private var offset = 0

    /// Walks `list`, a field's value.
    @_lifetime(copy list)
    package init(_ list: RawSpan) { self.list = list }

    /// The next element; nil at the end.
    @_lifetime(copy self)
    package mutating func next() -> RawSpan? {
        guard offset <= list.byteCount else { return nil }
        var start = offset
        var end = list.firstIndex(of: UInt8(ascii: ","), from: offset) ?? list.byteCount
        offset = end + 1
        while start < end, ByteClass.isBlank(list[start]) { start += 1 }
        while end > start, ByteClass.isBlank(list[end - 1]) { end -= 1 }
        return list.extracting(start..<end)
    }
}
