package import Wire

/// A DNS SRV record (RFC 2782): one server of a service. Ordered by priority, then by target and port.
package struct ServiceRecord: Hashable, Comparable, Sendable {
    /// The lowest is preferred.
    package var priority: UInt16
    /// The share of the requests among records of the same priority.
    package var weight: UInt16
    package var port: UInt16
    /// Lower case, without the last dot. Empty (a target of `.`): the service is not available.
    package var target: String

    package init(priority: UInt16, weight: UInt16, port: UInt16, target: String) {
        self.priority = priority
        self.weight = weight
        self.port = port
        self.target = target
    }

    package static func < (one: Self, other: Self) -> Bool {
        (one.priority, one.target, one.port, one.weight) < (other.priority, other.target, other.port, other.weight)
    }
}

/// Reader of the records in a DNS response (RFC 1035 §4.1). Every offset is checked, because any host on the path may have
/// sent the bytes.
package struct DNSAnswer {
    /// Why a response cannot be used.
    package enum Fault: Error, Equatable {
        /// It ends too early, or a name in it is malformed.
        case malformed
        /// It is a query, or has an RCODE other than NOERROR.
        case refused
    }

    private static let headerLength = 12
    private static let classInternet = 1
    /// Bytes of a name on the wire (RFC 1035 §2.3.4).
    private static let maxName = 255

    private let bytes: [UInt8]
    private var place = 0

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The distinct SRV records of the answer section, in order.
    static func services(_ bytes: [UInt8]) throws(Fault) -> [ServiceRecord] {
        let found = try records(33, bytes) { (reader: inout Self, _) throws(Fault) in
            let (priority, weight, port) = (try reader.number(), try reader.number(), try reader.number())
            return ServiceRecord(
                priority: UInt16(priority), weight: UInt16(weight), port: UInt16(port), target: try reader.name())
        }
        return Set(found).sorted()
    }

    /// The name servers of the answer section (NS).
    package static func servers(_ bytes: [UInt8]) throws(Fault) -> [String] {
        try records(2, bytes) { (reader: inout Self, _) throws(Fault) in try reader.name() }
    }

    /// Its texts (TXT), the parts of each behind one another.
    package static func texts(_ bytes: [UInt8]) throws(Fault) -> [[UInt8]] {
        try records(16, bytes) { (reader: inout Self, end) throws(Fault) in
            var text: [UInt8] = []
            while reader.place < end {
                let (start, length) = (reader.place + 1, Int(reader.bytes[reader.place]))
                try reader.skip(1 + length)
                text += reader.bytes[start..<start + length]
            }
            return text
        }
    }

    /// Its addresses (A and AAAA).
    package static func addresses(_ bytes: [UInt8]) throws(Fault) -> [IPAddress] {
        let four = try records(1, bytes) { (reader: inout Self, _) throws(Fault) in IPAddress(v4: UInt32(try reader.number(of: 4))) }
        return try four
            + records(28, bytes) { (reader: inout Self, _) throws(Fault) in
                IPAddress(high: try reader.number(of: 8), low: try reader.number(of: 8))
            }
    }

    /// The records of one type. `read` parses one of them and gets the offset of its end. Records of other types, such as a CNAME, are
    /// skipped.
    private static func records<Record>(
        _ wanted: Int, _ bytes: [UInt8], _ read: (inout Self, _ end: Int) throws(Fault) -> Record
    ) throws(Fault) -> [Record] {
        var reader = Self(bytes)
        return try reader.records(wanted, read)
    }

    private mutating func records<Record>(
        _ wanted: Int, _ read: (inout Self, _ end: Int) throws(Fault) -> Record
    ) throws(Fault) -> [Record] {
        guard bytes.count >= Self.headerLength else { throw .malformed }
        guard bytes[2] & 0x80 != 0, bytes[3] & 0x0F == 0 else { throw .refused }
        place = 4
        let questions = try number()
        let answers = try number()
        place = Self.headerLength
        for _ in 0..<questions {
            _ = try name()
            try skip(4)
        }
        var found: [Record] = []
        for _ in 0..<answers {
            _ = try name()
            let (type, kind) = (try number(), try number())
            try skip(4)
            let length = try number()
            let end = place + length
            guard end <= bytes.count else { throw .malformed }
            if type == wanted, kind == Self.classInternet {
                found.append(try read(&self, end))
                guard place == end else { throw .malformed }
            }
            place = end
        }
        return found
    }

    private mutating func skip(_ count: Int) throws(Fault) {
        guard bytes.count - place >= count else { throw .malformed }
        place += count
    }

    /// A number of two bytes.
    private mutating func number() throws(Fault) -> Int {
        guard bytes.count - place >= 2 else { throw .malformed }
        defer { place += 2 }
        return Int(bytes[place]) << 8 | Int(bytes[place + 1])
    }

    private mutating func number(of count: Int) throws(Fault) -> UInt64 {
        let start = place
        try skip(count)
        return bytes[start..<place].reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// A name, whose compression pointers may lead only backwards (RFC 1035 §4.1.4): so it ends.
    private mutating func name() throws(Fault) -> String {
        var text: [UInt8] = []
        var at = place
        /// Where the name ends in the record; set by the first pointer.
        var end: Int?
        var bound = place
        while true {
            guard at < bytes.count else { throw .malformed }
            let length = Int(bytes[at])
            switch length {
            case 0:
                place = end ?? at + 1
                return String(decoding: text, as: UTF8.self)
            case 1...63:
                guard bytes.count - at > length, text.count + length + 2 <= Self.maxName else { throw .malformed }
                if !text.isEmpty { text.append(UInt8(ascii: ".")) }
                for byte in bytes[at + 1...at + length] { text.append(try Self.nameByte(byte)) }
                at += length + 1
            case 0xC0...:
                guard at + 1 < bytes.count else { throw .malformed }
                let target = (length & 0x3F) << 8 | Int(bytes[at + 1])
                guard target < bound else { throw .malformed }
                if end == nil { end = at + 2 }
                (at, bound) = (target, target)
            default: throw .malformed
            }
        }
    }

    /// A byte of a host name, in lower case. Any other could not be told from a dot, or would reach logs and TLS.
    private static func nameByte(_ byte: UInt8) throws(Fault) -> UInt8 {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): return byte | 0x20
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            return byte
        default: throw .malformed
        }
    }
}
