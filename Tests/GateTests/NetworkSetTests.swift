import Testing
import Wire

@testable import Gate

/// The sets of networks by which requests are refused for their address.
@Suite struct NetworkSetTests {
    /// A network or an address near the edges of others: few bits vary, and those of both families lie side by side.
    private func network(_ random: inout SplitMix64) throws -> CIDR {
        let address = address(&random)
        let widest = address.isIPv4 ? 32 : 128
        return try #require(CIDR(parsing: "\(address.text)/\(random.next() % 8 == 0 ? 0 : widest - Int(random.next() % 12))"))
    }

    private func address(_ random: inout SplitMix64) -> IPAddress {
        let few = random.next() % 4_096
        return switch random.next() % 6 {
        case 0, 1: IPAddress(v4: UInt32(few))
        case 2: IPAddress(v4: .max - UInt32(few))
        // Beside the mapped addresses, and NAT64.
        case 3: IPAddress(high: 0, low: (random.next() % 2 == 0 ? 0xFFFE_FFFF_F000 : 0x1_0000_0000_0000) + few)
        case 4: IPAddress(high: 0x0064_FF9B_0000_0000, low: few)
        default: IPAddress(high: .max, low: .max - few)
        }
    }

    @Test func aSetContainsWhatOneOfItsNetworksContains() throws {
        var random = SplitMix64(seed: 7)
        for _ in 0..<400 {
            let networks = try (0..<Int(random.next() % 12)).map { _ in try network(&random) }
            let set = NetworkSet(networks)
            let edges = networks.flatMap { [$0.network, $0.last] }
            let wrong = (edges + (0..<60).map { _ in address(&random) }).filter { address in
                let forms = [address, address.limitPrefix.isIPv4 ? address.limitPrefix : address]
                return set.contains(address) != forms.contains { form in networks.contains { $0.contains(form) } }
            }
            #expect(wrong.isEmpty, "\(networks.map(\.text)): \(wrong.map(\.text))")
        }
    }

    @Test func aFileHasANetworkOnEachLine() throws {
        let good = "# all\n10.0.0.0/8 # ours\r\n\n\t fd00::/8\t\n192.0.2.7"
        #expect(try NetworkFile.parse(Array(good.utf8)).map(\.text) == ["10.0.0.0/8", "fd00::/8", "192.0.2.7/32"])
        let cases = [
            ("10.0.0.1\n10.0.0.0/33\n", #"line 2 is "10.0.0.0/33", write a network like 10.0.0.0/8 or fd00::/8"#),
            ("10.0.0.1 10.0.0.2", #"line 1 is "10.0.0.1 10.0.0.2", write a network like 10.0.0.0/8 or fd00::/8"#),
            (String(repeating: "::1\n", count: NetworkFile.maxNetworks + 1), "has more than 100000 networks"),
        ]
        for (text, fault) in cases {
            let thrown = #expect(throws: ParseError.self) { try NetworkFile.parse(Array(text.utf8)) }
            #expect(thrown?.text == fault)
        }
    }

    /// Random bytes of the alphabet of such files are read as a list that is the file again, or refused; never more than its lines.
    @Test func anyBytesAreAListOrAFault() {
        var random = SplitMix64(seed: 11)
        let pieces = ["10.0.0.0", "192.0.2.255", "::1", "fd00::", "/8", "/33", "/129", "#", " ", "\t", "\n", "\r\n", "x", "\0", ".", ":"]
        var read = 0
        for _ in 0..<20_000 {
            let text = (0..<Int(random.next() % 9)).map { _ in pieces[Int(random.next() % UInt64(pieces.count))] }.joined()
            let bytes = Array(text.utf8)
            guard let networks = try? NetworkFile.parse(bytes) else { continue }
            read += networks.count
            let again = try? NetworkFile.parse(Array(networks.map(\.text).joined(separator: "\n").utf8))
            #expect(again == networks && networks.count <= bytes.count { $0 == UInt8(ascii: "\n") } + 1, "\(bytes)")
        }
        #expect(read > 100)
    }
}
