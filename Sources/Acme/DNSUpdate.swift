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
package struct DNSUpdate: Equatable, Sendable {
    package let message: [UInt8]
    private let id: UInt16

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
            let algorithm = Self.name("hmac-sha256"), 1...255 ~= record.text.utf8.count
        else { return nil }
        let head = { (additional: UInt16) in Self.words(id, Self.flags, 1, 0, 1, additional) }
        let data = [UInt8(record.text.utf8.count)] + Array(record.text.utf8)
        var body = zone + Self.words(Self.typeSOA, Self.classIN) + name
        body += Self.words(Self.typeTXT, adds ? Self.classIN : Self.classNone) + Self.long(adds ? Self.seconds : 0)
        body += Self.words(UInt16(data.count)) + data
        let time = Self.words(UInt16(truncatingIfNeeded: now.seconds >> 32)) + Self.long(UInt32(truncatingIfNeeded: now.seconds))
        // The key's name, its class and lifetime, the algorithm, times, no error and no other data.
        let owner = key + Self.words(Self.classAny) + Self.long(0)
        let signed = head(0) + body + owner + algorithm + time + Self.words(Self.fudge, 0, 0)
        let mac = Digest.hmacSHA256(signed.rawBytes, key: server.secret.rawBytes)
        let content = algorithm + time + Self.words(Self.fudge, UInt16(mac.count)) + mac + Self.words(id, 0, 0)
        let signature = key + Self.words(Self.typeTSIG, Self.classAny) + Self.long(0) + Self.words(UInt16(content.count)) + content
        message = head(1) + body + signature
        self.id = id
    }

    /// Why the server has not made the change, by its answer; nil if it has. The answer's signature is not verified: who forges one has a
    /// challenge fail, and gets no certificate.
    package func problem(in answer: [UInt8]) -> String? {
        guard answer.count >= 12, Self.word(answer, 0) == id, answer[2] & 0xF8 == 0x80 | 5 << 3 else {
            return "sends no answer to an update"
        }
        switch answer[3] & 15 {
        case 0: return nil
        case 5: return "refuses the update (REFUSED): allow the key to change TXT records"
        case 9: return "refuses the key, or does not serve the zone (NOTAUTH): compare the key's name, its secret and the clocks"
        case 10: return "finds a name outside of the zone (NOTZONE)"
        case let code: return "answers the update with the code \(code)"
        }
    }

    private static func word(_ bytes: [UInt8], _ at: Int) -> UInt16 { UInt16(bytes[at]) << 8 | UInt16(bytes[at + 1]) }

    private static func words(_ values: UInt16...) -> [UInt8] { values.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] } }

    private static func long(_ value: UInt32) -> [UInt8] { words(UInt16(value >> 16), UInt16(value & 0xFFFF)) }

    /// A domain name in lower case and without compression.
    static func name(_ text: String) -> [UInt8]? {
        let labels = text.lowercased().split(separator: ".").map { Array($0.utf8) }
        guard !labels.isEmpty, labels.allSatisfy({ 1...63 ~= $0.count }) else { return nil }
        let bytes: [UInt8] = labels.flatMap { label -> [UInt8] in [UInt8(label.count)] + label } + [0]
        return bytes.count <= 255 ? bytes : nil
    }
}
