import HTTP
import Testing
import Wire

/// Against nghttp2, in both directions, with lists that make both tables grow and evict.
@Suite(.enabled(if: PeerHPACK.isThere, "libnghttp2.so.14 is not installed"))
struct PeerHPACKTests {
    @Test("Blocks of nghttp2's encoder are read as it meant them", arguments: [(1, 4096), (2, 4096), (3, 300), (4, 0)] as [(UInt64, Int)])
    func theirBlocks(seed: UInt64, tableLimit: Int) throws {
        let peer = try PeerHPACK()
        let encoder = peer.encoder(tableLimit: tableLimit)
        defer { peer.deleteEncoder(encoder) }
        var maker = RandomEncoder(seed: seed)
        var reader = BlockReader()
        for round in 0..<fuzzRounds / 20 {
            if round % 50 == 49, tableLimit > 0 { _ = peer.changeTable(encoder, Int.random(in: 0...4096, using: &maker.random)) }
            let fields = maker.fields() + [FieldPair("last", "\(round)")]
            let got = reader.readFields(peer.encode(fields, encoder))
            let expected = fields.map { ($0.name + Array(": ".utf8) + $0.value).map { String(UnicodeScalar($0)) }.joined() }
            guard got == expected else {
                Issue.record("seed \(seed), round \(round): \(got) for \(expected)")
                return
            }
        }
    }

    @Test("nghttp2's decoder reads our blocks as we meant them", arguments: 1...2)
    func ourBlocks(seed: UInt64) throws {
        let peer = try PeerHPACK()
        let decoder = peer.decoder()
        defer { peer.deleteDecoder(decoder) }
        var maker = RandomEncoder(seed: seed)
        var encoder = HPACKEncoder()
        for round in 0..<fuzzRounds / 20 {
            let fields = maker.fields()
            var out = ByteBuffer()
            encoder.begin(&out)
            encoder.status(200 + round % 300, into: &out)
            for field in fields { encoder.field(field.name.rawBytes, field.value.rawBytes, into: &out) }
            guard peer.decode(out.readable.array, decoder) == [FieldPair(":status", "\(200 + round % 300)")] + fields else {
                Issue.record("seed \(seed), round \(round): \(fields)")
                return
            }
        }
    }

    @Test("The test's own encoder writes blocks that nghttp2 reads too", arguments: 1...2)
    func randomBlocks(seed: UInt64) throws {
        let peer = try PeerHPACK()
        let decoder = peer.decoder()
        defer { peer.deleteDecoder(decoder) }
        var encoder = RandomEncoder(seed: seed)
        for round in 0..<fuzzRounds / 20 {
            let fields = encoder.fields()
            guard peer.decode(encoder.encode(fields), decoder) == fields else {
                Issue.record("seed \(seed), round \(round): \(fields)")
                return
            }
        }
    }
}
