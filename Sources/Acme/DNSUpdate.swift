internal import Credentials
package import Wire

/// The server of a zone that takes updates (RFC 2136), and the key that signs them (TSIG with HMAC-SHA-256, RFC 8945).
package struct DNSUpdateServer: Hashable, Sendable {
    package let host: String
    package let port: UInt16
    package let zone: String
    package let keyName: String
    package let secret: [UInt8]

    package init(host: String, port: UInt16, zone: String, keyName: String, secret: [UInt8]) {
        (self.host, self.port, self.zone, self.keyName, self.secret) = (host, port, zone, keyName, secret)
    }
}

/// A message that adds a TXT record to a zone, or removes it. Pure.
package struct DNSUpdate: Sendable {
    package let message: [UInt8]
    private let id: UInt16
    /// For the signature of the answer.
    private let key: (owner: [UInt8], secret: [UInt8])
    private let mac: [UInt8]

    private static let typeTXT: UInt16 = 16
    private static let typeSOA: UInt16 = 6
    private static let typeTSIG: UInt16 = 250
    private static let classIN: UInt16 = 1
    private static let classNone: UInt16 = 254
    private static let classAny: UInt16 = 255
    /// Opcode UPDATE.
    private static let flags: UInt16 = 5 << 11
    /// Seconds by which clocks may differ.
    private static let fudge: UInt16 = 300
    private static let seconds: UInt32 = 60

    /// nil if a name is not a valid domain name, or the text is longer than 255 bytes.
    package init?(_ record: (name: String, text: String), adds: Bool, at server: DNSUpdateServer, id: UInt16, now: WallTime) {
        guard let zone = Self.name(server.zone), let name = Self.name(record.name), let key = Self.name(server.keyName),
            1...255 ~= record.text.utf8.count
        else { return nil }
        let head = { (additional: UInt16) in Self.words(id, Self.flags, 1, 0, 1, additional) }
        let data = [UInt8(record.text.utf8.count)] + Array(record.text.utf8)
        var body = zone + Self.words(Self.typeSOA, Self.classIN) + name
        body += Self.words(Self.typeTXT, adds ? Self.classIN : Self.classNone) + Self.long(adds ? Self.seconds : 0)
        body += Self.words(UInt16(data.count)) + data
        let time = Self.words(UInt16(truncatingIfNeeded: now.seconds >> 32)) + Self.long(UInt32(truncatingIfNeeded: now.seconds))
        // The key's name, its class and lifetime, the algorithm, times, no error and no other data.
        let owner = key + Self.words(Self.classAny) + Self.long(0)
        let signed = head(0) + body + owner + Self.algorithm + time + Self.words(Self.fudge, 0, 0)
        mac = Digest.hmacSHA256(signed.rawBytes, key: server.secret.rawBytes)
        let content = Self.algorithm + time + Self.words(Self.fudge, UInt16(mac.count)) + mac + Self.words(id, 0, 0)
        let signature = key + Self.words(Self.typeTSIG, Self.classAny) + Self.long(0) + Self.words(UInt16(content.count)) + content
        message = head(1) + body + signature
        self.id = id
        self.key = (owner, server.secret)
    }

    /// Why the server has not made the change, by its answer; nil if it has. Only that it has must be signed: a server that refuses the key
    /// cannot sign.
    package func problem(in answer: [UInt8]) -> String? {
        guard answer.count >= 12, Self.word(answer, 0) == id, answer[2] & 0xF8 == 0x80 | 5 << 3 else {
            return "sends no answer to an update"
        }
        switch answer[3] & 15 {
        case 0: return isSigned(answer) ? nil : "answers the update without a valid signature: compare the key's secret"
        case 5: return "refuses the update (REFUSED): allow the key to change TXT records"
        case 9: return "refuses the key, or does not serve the zone (NOTAUTH): compare the key's name, its secret and the clocks"
        case 10: return "finds a name outside of the zone (NOTZONE)"
        case let code: return "answers the update with the code \(code)"
        }
    }

    /// Whether the last record signs the answer to this update (RFC 8945, 5.3). Its times are not looked at: no other update has this MAC.
    private func isSigned(_ answer: [UInt8]) -> Bool {
        guard let start = Self.lastRecord(of: answer), let end = Self.endOfName(answer, start) else { return false }
        let data = answer[(end + 10)...]
        guard Self.word(answer, end) == Self.typeTSIG, data.starts(with: Self.algorithm) else { return false }
        let rest = Array(data.dropFirst(Self.algorithm.count))
        // Times, the MAC behind its size, the id, no error, and other data, of which there is none.
        guard rest.count == 8 + 2 + mac.count + 6, Self.word(rest, 8) == UInt16(mac.count), rest.suffix(4) == [0, 0, 0, 0],
            Self.word(rest, 10 + mac.count) == id
        else { return false }
        var signed = Self.words(UInt16(mac.count)) + mac + answer[..<start]
        let count = 2 + mac.count + 10
        let additional = Self.words(Self.word(answer, 10) - 1)
        signed.replaceSubrange(count..<count + 2, with: additional)
        signed += key.owner + Self.algorithm + rest[..<8] + rest.suffix(4)
        return Digest.constantTimeEquals(
            Digest.hmacSHA256(signed.rawBytes, key: key.secret.rawBytes).rawBytes, Array(rest[10..<10 + mac.count]).rawBytes)
    }

    /// Where the last record begins, which is an additional one; nil for a message without one, and for one that does not end with it.
    private static func lastRecord(of message: [UInt8]) -> Int? {
        var offset = 12
        for _ in 0..<word(message, 4) {
            guard let end = endOfName(message, offset), end + 4 <= message.count else { return nil }
            offset = end + 4
        }
        var last: Int?
        for _ in 0..<Int(word(message, 6)) + Int(word(message, 8)) + Int(word(message, 10)) {
            guard let end = endOfName(message, offset), end + 10 <= message.count else { return nil }
            (last, offset) = (offset, end + 10 + Int(word(message, end + 8)))
            guard offset <= message.count else { return nil }
        }
        return offset == message.count && word(message, 10) > 0 ? last : nil
    }

    /// The end of a name, compressed or not; nil if it has none.
    private static func endOfName(_ message: [UInt8], _ start: Int) -> Int? {
        var offset = start
        while offset < message.count {
            switch message[offset] {
            case 0: return offset + 1
            case 1...63: offset += 1 + Int(message[offset])
            case 192...: return offset + 2
            default: return nil
            }
        }
        return nil
    }

    private static let algorithm: [UInt8] = [11] + Array("hmac-sha256".utf8) + [0]

    private static func word(_ bytes: [UInt8], _ at: Int) -> UInt16 { UInt16(bytes[at]) << 8 | UInt16(bytes[at + 1]) }

    private static func words(_ values: UInt16...) -> [UInt8] { values.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] } }

    private static func long(_ value: UInt32) -> [UInt8] { words(UInt16(value >> 16), UInt16(value & 0xFFFF)) }

    /// A query for the records of one type; nil if `name` is not a domain name.
    static func question(_ name: String, _ type: UInt16, id: UInt16) -> [UInt8]? {
        Self.name(name).map { words(id, 0, 1, 0, 0, 0) + $0 + words(type, classIN) }
    }

    /// A domain name in lower case and without compression.
    static func name(_ text: String) -> [UInt8]? {
        let labels = text.lowercased().split(separator: ".").map { Array($0.utf8) }
        guard !labels.isEmpty, labels.allSatisfy({ 1...63 ~= $0.count }) else { return nil }
        let bytes: [UInt8] = labels.flatMap { label -> [UInt8] in [UInt8(label.count)] + label } + [0]
        return bytes.count <= 255 ? bytes : nil
    }
}
