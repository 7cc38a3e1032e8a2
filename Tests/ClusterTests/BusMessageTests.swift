import Testing
import Wire

@testable import Cluster

/// The authentication of messages on the bus.
@Suite struct BusMessageTests {
    private let message = BusMessage(sender: 0x0123_4567_89ab_cdef, number: 7)
    private let secret = BusSecret([UInt8](repeating: 1, count: 32))
    private let other = BusSecret([UInt8](repeating: 2, count: 32))

    private func read(_ text: String, _ secret: BusSecret?) -> BusMessage? {
        let bytes = Array(text.utf8)
        return BusMessage(bytes.rawBytes, secret: secret)
    }

    @Test func aMessageIsReadByAllGateways() {
        #expect(message.text(secret: nil) == "tollgate1 0123456789abcdef 0000000000000007 -")
        #expect(read(message.text(secret: nil), nil) == message)
        #expect(read(message.text(secret: secret), secret) == message)
        let last = BusMessage(sender: .max, number: .max)
        #expect(read(last.text(secret: secret), secret) == last)
    }

    @Test func withASecretOnlyItsHoldersMessagesAreAccepted() {
        #expect(read(message.text(secret: nil), secret) == nil)
        #expect(read(message.text(secret: other), secret) == nil)
        let good = message.text(secret: secret)
        for index in good.indices {
            var changed = good
            changed.replaceSubrange(index...index, with: good[index] == "0" ? "1" : "0")
            #expect(read(changed, secret) == nil, "\(changed)")
        }
    }

    @Test(arguments: [
        "", " ", "   ", "tollgate1", "tollgate1 0123456789abcdef 0000000000000007", "tollgate1 0123456789abcdef 7 -",
        "tollgate1  0123456789abcdef 0000000000000007 -", "tollgate1 0123456789ABCDEF 0000000000000007 -",
        "tollgate1 +123456789abcdef 0000000000000007 -", "tollgate2 0123456789abcdef 0000000000000007 -",
        "tollgate1 0123456789abcdef 0000000000000007 - -", "tollgate1 0123456789abcdeä 0000000000000007 -",
        "tollgate1 0123456789abcdef 0000000000000007 -" + String(repeating: "x", count: 128),
    ])
    func nonsenseIsNone(_ text: String) { #expect(read(text, nil) == nil) }

    @Test func noBytesCanHurt() {
        var random = SplitMix64(seed: 5)
        for _ in 0..<2_000 {
            let bytes = (0..<Int(random.next() % 200)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            #expect(BusMessage(bytes.rawBytes, secret: secret) == nil)
            #expect(BusMessage(bytes.rawBytes, secret: nil) == nil)
        }
    }
}
