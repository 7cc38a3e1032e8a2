import Acme
import Credentials
import Testing
import Wire

@Suite struct DNSUpdateTests {
    private let server = DNSUpdateServer(host: "h", port: 53, zone: "Example.org.", keyName: "key", secret: Array("0123456789abcdef".utf8))
    private let now = WallTime(seconds: 1_800_000_000)

    @Test func aRecordIsAddedAndRemoved() throws {
        let record = (name: "_acme-challenge.a.example.org", text: "digest")
        let added = try #require(DNSUpdate(record, adds: true, at: server, id: 0x1234, now: now))
        // The header, the zone, the record with its class and lifetime.
        let name: [UInt8] = [15] + Array("_acme-challenge".utf8) + [1, 97, 7] + Array("example".utf8) + [3] + Array("org".utf8) + [0]
        let zone: [UInt8] = [7] + Array("example".utf8) + [3] + Array("org".utf8) + [0]
        let head: [UInt8] = [0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 1, 0, 1]
        #expect(
            added.message.starts(with: head + zone + [0, 6, 0, 1] + name + [0, 16, 0, 1, 0, 0, 0, 60, 0, 7, 6] + Array("digest".utf8)))
        // The signature: its key, type and class, then the algorithm, 16 bytes of times and sizes around a MAC of 32, the id, no error.
        #expect(Array(added.message.suffix(6)) == [0x12, 0x34, 0, 0, 0, 0])
        #expect(Array(added.message.dropLast(6 + 32).suffix(10)) == [0, 0, 0x6B, 0x49, 0xD2, 0x00, 1, 44, 0, 32])
        let removed = try #require(DNSUpdate(record, adds: false, at: server, id: 0x1234, now: now))
        #expect(removed.message.starts(with: head + zone + [0, 6, 0, 1] + name + [0, 16, 0, 254, 0, 0, 0, 0, 0, 7, 6]))
        #expect(added.message.suffix(38) != removed.message.suffix(38))
    }

    @Test func namesHaveBounds() {
        let label = String(repeating: "a", count: 64)
        for name in ["", ".", label, Array(repeating: "abcdefgh", count: 29).joined(separator: ".")] {
            #expect(DNSUpdate((name: name, text: "x"), adds: true, at: server, id: 1, now: now) == nil, "\(name)")
        }
        #expect(DNSUpdate((name: "a", text: String(repeating: "x", count: 256)), adds: true, at: server, id: 1, now: now) == nil)
        #expect(DNSUpdate((name: "a", text: ""), adds: true, at: server, id: 1, now: now) == nil)
    }

    @Test func answersAreJudged() throws {
        let update = try #require(DNSUpdate((name: "a.example.org", text: "x"), adds: true, at: server, id: 0x1234, now: now))
        func answer(_ code: UInt8, flags: UInt8 = 0xA8, id: UInt8 = 0x34) -> [UInt8] {
            [0x12, id, flags, code] + [UInt8](repeating: 0, count: 8)
        }
        #expect(update.problem(in: answer(0))?.contains("without a valid signature") == true)
        for (bytes, part) in [
            (answer(5), "REFUSED"), (answer(9), "NOTAUTH"), (answer(10), "NOTZONE"), (answer(2), "code 2"),
            (answer(0, flags: 0x28), "no answer"),
            (answer(0, flags: 0x80), "no answer"), (answer(0, id: 0x35), "no answer"), (Array(answer(0).dropLast()), "no answer"),
            ([], "no answer"),
        ] {
            #expect(update.problem(in: bytes)?.contains(part) == true, "\(bytes)")
        }
    }

    /// As a server signs it (RFC 8945, 5.3): behind the MAC of the update, with the zone repeated.
    private func signed(_ update: DNSUpdate, secret: String = "0123456789abcdef", error: UInt8 = 0) -> [UInt8] {
        let zone: [UInt8] = [7] + Array("example".utf8) + [3] + Array("org".utf8) + [0, 0, 6, 0, 1]
        let algorithm: [UInt8] = [11] + Array("hmac-sha256".utf8) + [0], times: [UInt8] = [0, 0, 0x6B, 0x49, 0xD2, 1, 1, 44]
        let head = { (additional: UInt8) -> [UInt8] in [0x12, 0x34, 0xA8, 0, 0, 1, 0, 0, 0, 0, 0, additional] }
        let owner: [UInt8] = [3] + Array("key".utf8) + [0]
        let before: [UInt8] = [0, 32] + update.message.dropLast(6).suffix(32) + head(0) + zone + owner + [0, 255, 0, 0, 0, 0]
        let mac = Digest.hmacSHA256((before + algorithm + times + [0, error, 0, 0]).rawBytes, key: Array(secret.utf8).rawBytes)
        let content: [UInt8] = algorithm + times + [0, 32] + mac + [0x12, 0x34, 0, error, 0, 0]
        return head(1) + zone + owner + [0, 250, 0, 255, 0, 0, 0, 0, 0, UInt8(content.count)] + content
    }

    @Test func onlyTheHolderOfTheKeyCanSayThatItIsDone() throws {
        let record = (name: "a.example.org", text: "x")
        let update = try #require(DNSUpdate(record, adds: true, at: server, id: 0x1234, now: now))
        let other = try #require(DNSUpdate(record, adds: false, at: server, id: 0x1234, now: now))
        let good = signed(update)
        #expect(update.problem(in: good) == nil)
        for bad in [signed(other), signed(update, secret: "0123456789abcdee"), signed(update, error: 16), good + [0]] {
            #expect(update.problem(in: bad)?.contains("without a valid signature") == true)
        }
        // Any damage is found but in the bits that the answer may have otherwise, and nothing traps.
        var random = SplitMix64(seed: 5)
        for index in good.indices {
            var damaged = good
            damaged[index] ^= UInt8(1 << (random.next() % 8))
            #expect(update.problem(in: damaged) != nil || Self.isFree(index, of: good), "\(index)")
            #expect(update.problem(in: Array(good[..<index])) != nil, "\(index)")
        }
        for _ in 0..<20_000 {
            var damaged = good
            for _ in 0..<1 + random.next() % 6 {
                damaged[Int(random.next() % UInt64(damaged.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            damaged.removeLast(Int(random.next() % 4))
            #expect(
                update.problem(in: damaged) != nil || damaged == good
                    || zip(damaged, good).enumerated().allSatisfy { $1.0 == $1.1 || Self.isFree($0, of: good) })
        }
    }

    /// The owner, class and lifetime of the signature's record are those of the key, whatever is written: all else is signed.
    private static func isFree(_ index: Int, of message: [UInt8]) -> Bool {
        let owner = 12 + 17
        return (owner + 1..<owner + 4).contains(index) || (owner + 7..<owner + 13).contains(index)
    }
}
