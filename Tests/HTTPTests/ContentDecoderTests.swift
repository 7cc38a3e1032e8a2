import HTTP
import Testing
import Wire

@Suite struct ContentDecoderTests {
    /// "hello hello hello hello" as gzip, as deflate in zlib's frame, and without it.
    private static let gzip: [UInt8] = [
        0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x57, 0xC8, 0x40, 0x27, 0x01, 0xE3, 0x51,
        0x3D, 0x8D, 0x17, 0x00, 0x00, 0x00,
    ]
    private static let zlib: [UInt8] = [0x78, 0x9C, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x57, 0xC8, 0x40, 0x27, 0x01, 0x68, 0x03, 0x08, 0xB1]
    private static let raw: [UInt8] = [0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0x57, 0xC8, 0x40, 0x27, 0x01]
    private static let zstd: [UInt8] = [
        0x28, 0xB5, 0x2F, 0xFD, 0x24, 0x17, 0x65, 0x00, 0x00, 0x30, 0x68, 0x65, 0x6C, 0x6C, 0x6F, 0x20, 0x01, 0x00, 0x99, 0x4B, 0x11, 0x17,
        0x5E, 0xAE, 0x0D,
    ]
    private static let br: [UInt8] = [
        0x1B, 0x16, 0x00, 0xF8, 0x8D, 0x94, 0x6E, 0xDE, 0x44, 0x55, 0x86, 0x96, 0x6C, 0x20, 0x6F, 0x21, 0x4F, 0x1C, 0xE0, 0x38,
    ]
    private static let text = "hello hello hello hello"

    private struct NoMemory: Error {}

    /// The decoded form of content that arrives in pieces of `size`, with `room` at a time; nil if it is broken or cut short.
    private func decode(_ coding: ContentCoding, _ content: [UInt8], size: Int, room: Int) throws -> String? {
        guard var decoder = ContentDecoder(coding) else { throw NoMemory() }
        var input = ByteBuffer()
        var out = ByteBuffer()
        var start = 0
        while start < content.count {
            let end = min(content.count, start + size)
            input.append(Array(content[start..<end]))
            start = end
            decoding: while true {
                let before = out.count
                switch decoder.decode(&input, room: room, into: &out) {
                case .starved: break decoding
                case .full: if out.count - before != room { return nil }
                case .broken: return nil
                }
            }
        }
        return decoder.mayEnd() ? out.readable.text : nil
    }

    @Test(arguments: [1, 3, 1_000], [1, 5, 64]) func contentIsUnpackedInAnyPieces(_ size: Int, _ room: Int) throws {
        #expect(try decode(.gzip, Self.gzip, size: size, room: room) == Self.text)
        #expect(try decode(.gzip, Self.gzip + Self.gzip, size: size, room: room) == Self.text + Self.text)
        #expect(try decode(.deflate, Self.zlib, size: size, room: room) == Self.text)
        #expect(try decode(.deflate, Self.raw, size: size, room: room) == Self.text)
        #expect(try decode(.zstd, Self.zstd, size: size, room: room) == Self.text)
        #expect(try decode(.zstd, Self.zstd + Self.zstd, size: size, room: room) == Self.text + Self.text)
        #expect(try decode(.br, Self.br, size: size, room: room) == Self.text)
        #expect(try decode(.br, Self.br + Self.br, size: size, room: room) == nil)
        #expect(try decode(.gzip, [], size: size, room: room) == "")
    }

    @Test func whatIsCutOrDamagedIsNoContent() throws {
        for (coding, content) in [(ContentCoding.gzip, Self.gzip), (.deflate, Self.zlib), (.zstd, Self.zstd), (.br, Self.br)] {
            for length in 1..<content.count { #expect(try decode(coding, Array(content.prefix(length)), size: 7, room: 64) == nil) }
            #expect(try decode(coding, content + [1, 2, 3], size: 100, room: 64) == nil)
        }
        var damaged = Self.gzip
        damaged[damaged.count - 6] ^= 1
        #expect(try decode(.gzip, damaged, size: 100, room: 64) == nil)
        #expect(try decode(.gzip, Array("plain".utf8), size: 100, room: 64) == nil)
    }
}
