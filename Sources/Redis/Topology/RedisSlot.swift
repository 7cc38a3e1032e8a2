import Wire

/// Redis Cluster's distribution of keys: the CRC16 of a key, or of its hash tag, modulo 16,384.
package enum RedisSlot {
    package static let count = 16_384

    /// The slot of a key. The hash tag is the text between the first `{` and the first `}` behind it, if it is not empty.
    package static func of(_ key: RawSpan) -> UInt16 {
        guard let open = key.firstIndex(of: UInt8(ascii: "{")),
            let close = key.firstIndex(of: UInt8(ascii: "}"), from: open + 1), close > open + 1
        else { return crc16(key) % UInt16(count) }
        return crc16(key.extracting(open + 1..<close)) % UInt16(count)
    }

    /// CRC16-XMODEM: polynomial 0x1021, initial value 0, nothing reflected.
    static func crc16(_ bytes: RawSpan) -> UInt16 {
        var sum: UInt16 = 0
        for index in 0..<bytes.byteCount {
            sum ^= UInt16(bytes[index]) << 8
            for _ in 0..<8 { sum = sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021 }
        }
        return sum
    }

    /// The slot of each hash tag, by its number.
    package static let ofTags: [UInt16] = (0..<HashTag.count).map { number in
        var text = ByteBuffer()
        HashTag(UInt8(number)).write(into: &text)
        return of(text.readable)
    }
}
