/// Reads the field block of an answer, in which the gateway uses no table of its own and no Huffman code (RFC 7541).
struct HTTP2Fields {
    /// The names of the static table that have an index below 62, by it.
    private static let names: [Int: String] = [
        8: ":status", 16: "accept-encoding", 17: "accept-language", 18: "accept-ranges", 19: "accept", 21: "age", 23: "authorization",
        24: "cache-control", 26: "content-encoding", 28: "content-length", 30: "content-range", 31: "content-type", 32: "cookie",
        33: "date",
        34: "etag", 35: "expect", 36: "expires", 44: "last-modified", 46: "location", 48: "proxy-authenticate", 53: "retry-after",
        54: "server", 55: "set-cookie", 58: "user-agent", 59: "vary", 60: "via", 61: "www-authenticate",
    ]
    private static let statuses = [8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"]

    private var rest: ArraySlice<UInt8>
    private(set) var fields: [(name: String, value: String)] = []

    init(_ block: [UInt8]) throws {
        rest = block[...]
        while let first = rest.first {
            if first & 0x80 != 0 {
                guard let status = Self.statuses[try integer(prefix: 7)] else { throw Fault("an index that the gateway does not use") }
                fields.append((":status", status))
            } else if first & 0x60 == 0x20 {
                _ = try integer(prefix: 5)
            } else {
                let index = try integer(prefix: 4)
                let name = index == 0 ? try text() : Self.names[index] ?? "index \(index)"
                fields.append((name, try text()))
            }
        }
    }

    subscript(_ name: String) -> String? { fields.first { $0.name == name }?.value }

    private mutating func integer(prefix: Int) throws -> Int {
        guard let first = rest.popFirst() else { throw Fault("a block that breaks off") }
        var value = Int(first) & (1 << prefix - 1)
        guard value == 1 << prefix - 1 else { return value }
        var shift = 0
        while let next = rest.popFirst() {
            value += Int(next & 127) << shift
            shift += 7
            if next < 128 { return value }
        }
        throw Fault("an integer that breaks off")
    }

    private mutating func text() throws -> String {
        let count = try integer(prefix: 7)
        guard count <= rest.count else { throw Fault("a string that breaks off") }
        defer { rest = rest.dropFirst(count) }
        return String(rest.prefix(count).map { Character(UnicodeScalar($0)) })
    }
}
