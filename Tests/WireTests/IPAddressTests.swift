import Testing
import Wire

@Suite struct IPAddressTests {
    @Test(arguments: [
        ("0.0.0.0", "0.0.0.0"), ("127.0.0.1", "127.0.0.1"), ("255.255.255.255", "255.255.255.255"),
        ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("2001:db8::1", "2001:db8::1"),
        ("2001:0DB8:0000:0000:0000:ff00:0042:8329", "2001:db8::ff00:42:8329"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"), ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
        ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"), ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"),
        ("::ffff:192.0.2.1", "192.0.2.1"), ("::ffff:c000:0201", "192.0.2.1"), ("64:ff9b::192.0.2.33", "64:ff9b::c000:221"),
        ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"), ("fe80::abcd", "fe80::abcd"),
    ])
    func anAddressIsReadAndWrittenInItsShortForm(_ text: String, _ short: String) {
        #expect(IPAddress(parsing: text)?.text == short)
    }

    @Test(arguments: [
        "", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.04", "1..2.3", ".1.2.3", "1.2.3.", "1.2.3.4 ",
        " 1.2.3.4", "0x7f.0.0.1", "1.2.3.-4", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8:",
        ":1:2:3:4:5:6:7", "1::2::3", "12345::", "g::", "::1%eth0", "[::1]", "::1.2.3", "1:2:3:4:5:6:7:1.2.3.4",
        "::1.2.3.4:5", "1:2:3:4::5:6:7:8", "::1/64", "1:", "::00001", "1.2.3.4::",
    ])
    func invalidAddressesAreRefused(_ text: String) {
        #expect(IPAddress(parsing: text) == nil)
    }

    @Test func everyOctetIsWrittenInDecimal() {
        for octet in 0..<256 as Range<UInt32> {
            #expect(IPAddress(v4: octet << 24 | octet << 16 | octet << 8 | octet).text == "\(octet).\(octet).\(octet).\(octet)")
        }
    }

    @Test func everyAddressReadsBackAsItself() {
        var random = SplitMix64(seed: 4)
        for _ in 0..<20_000 {
            var address = IPAddress(high: random.next(), low: random.next())
            for shift in stride(from: 0, to: 64, by: 16) {
                if Bool.random(using: &random) { address.high &= ~(0xFFFF << UInt64(shift)) }
                if Bool.random(using: &random) { address.low &= ~(0xFFFF << UInt64(shift)) }
            }
            #expect(IPAddress(parsing: address.text) == address)
            let v4 = IPAddress(v4: UInt32(truncatingIfNeeded: random.next()))
            #expect(IPAddress(parsing: v4.text) == v4)
        }
    }

    @Test func noBytesTrapTheParser() {
        var random = SplitMix64(seed: 5)
        let alphabet = Array("0123456789abcdefABCDEF::::....%/x".utf8)
        for _ in 0..<100_000 {
            let text = (0..<Int.random(in: 0...20, using: &random)).map { _ in alphabet.randomElement(using: &random)! }
            if let address = IPAddress(parsing: text.rawBytes) { #expect(IPAddress(parsing: address.text) == address) }
        }
    }

    @Test func limitsCountIPv6ByItsNetwork() throws {
        let mine = try #require(IPAddress(parsing: "2001:db8:1:2:3:4:5:6"))
        #expect(mine.limitPrefix.text == "2001:db8:1:2::")
        let cases = [
            ("192.0.2.7", "192.0.2.7"), ("64:ff9b::c000:207", "192.0.2.7"), ("64:ff9b::192.0.2.8", "192.0.2.8"),
            ("64:ff9b::1:c000:207", "64:ff9b::"),
            ("64:ff9b:1::c000:207", "64:ff9b:1::"), ("::c000:207", "::"),
        ]
        for (address, counted) in cases { #expect(IPAddress(parsing: address)?.limitPrefix.text == counted, "\(address)") }
    }

    @Test func thisMachineIsKnown() {
        for text in ["127.0.0.1", "127.255.0.9", "::1"] { #expect(IPAddress(parsing: text)?.isLoopback == true) }
        for text in ["128.0.0.1", "::2", "1::1", "0.0.0.0"] { #expect(IPAddress(parsing: text)?.isLoopback == false) }
    }
}

@Suite struct CIDRTests {
    @Test(
        arguments: [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255", "::ffff:10.1.1.1"], ["11.0.0.0", "9.255.255.255", "::a00:1"]),
            ("127.0.0.1/8", ["127.0.0.0", "127.9.9.9"], ["128.0.0.0"]),
            ("192.0.2.7", ["192.0.2.7"], ["192.0.2.6", "192.0.2.8"]),
            ("192.0.2.6/31", ["192.0.2.6", "192.0.2.7"], ["192.0.2.5", "192.0.2.8"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.1.1.1"], ["::1", "2001:db8::1"]),
            ("::/0", ["::1", "2001:db8::1"], ["1.2.3.4"]),
            ("::ffff:0:0/96", ["1.2.3.4"], ["2001:db8::1"]),
            ("::ffff:10.0.0.0/104", ["10.9.9.9"], ["11.0.0.0"]),
            ("2001:db8::/32", ["2001:db8:ffff::"], ["2001:db9::"]),
            ("2001:db8::/65", ["2001:db8::7fff:0:0:1"], ["2001:db8::8000:0:0:1"]),
            ("fe80::1/128", ["fe80::1"], ["fe80::2"]),
        ] as [(String, [String], [String])])
    func aBlockContainsItsAddressesOnly(_ block: String, _ inside: [String], _ outside: [String]) throws {
        let cidr = try #require(CIDR(parsing: block))
        for text in inside { #expect(cidr.contains(try #require(IPAddress(parsing: text))), "\(text) in \(block)") }
        for text in outside { #expect(!cidr.contains(try #require(IPAddress(parsing: text))), "\(text) in \(block)") }
    }

    @Test(arguments: ["", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "::/129", "10/8", "10.0.0.0/8/8"])
    func invalidBlocksAreRefused(_ text: String) { #expect(CIDR(parsing: text) == nil) }

    @Test(arguments: [("10.1.2.3/8", "10.0.0.0/8"), ("::1/64", "::/64"), ("1.2.3.4", "1.2.3.4/32")])
    func aBlockIsWrittenWithoutItsIdleBits(_ text: String, _ written: String) {
        #expect(CIDR(parsing: text)?.text == written)
    }
}
