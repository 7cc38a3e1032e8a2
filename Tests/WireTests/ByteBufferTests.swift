import Testing
import Wire

@Suite struct ByteBufferTests {
    @Test func anEmptyBufferHoldsNothingAndOwnsNothing() {
        var buffer = ByteBuffer()
        #expect(buffer.isEmpty == true)
        #expect(buffer.count == 0)
        #expect(buffer.capacity == 0)
        #expect(buffer.readable.byteCount == 0)
        buffer.append(RawSpan())
        buffer.append("" as StaticString)
        buffer.append("")
        buffer.discard(0)
        buffer.truncate(to: 0)
        buffer.removeAll()
        #expect(buffer.capacity == 0)
    }

    @Test func itGivesBackWhatItDoesNotNeed() {
        for (count, capacity) in [(0, 1_000), (1, 64), (64, 64), (65, 128), (900, 960), (961, 1_000)] {
            var buffer = ByteBuffer(capacity: 1_000)
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            buffer.append(bytes)
            buffer.trim()
            #expect(buffer.capacity == capacity && buffer.readable.array == bytes)
            buffer.append(bytes)
            #expect(buffer.readable.array == bytes + bytes)
        }
    }

    @Test func itAppendsACopyOfItsOwnBytes() {
        for count in [0, 1, 2, 7, 8, 15, 33, 200] {
            var buffer = ByteBuffer(capacity: 4)
            let bytes = (0..<count + 3).map { UInt8(truncatingIfNeeded: $0) }
            buffer.append([9, 9] + bytes)
            buffer.discard(2)
            buffer.append(copyOf: 3..<count + 3)
            #expect(buffer.readable.array == bytes + bytes[3...])
        }
    }

    @Test func itGrowsAndKeepsItsBytes() {
        var buffer = ByteBuffer(capacity: 1)
        var expected: [UInt8] = []
        for value in 0..<1_000 {
            let byte = UInt8(truncatingIfNeeded: value &* 7)
            buffer.append(byte)
            expected.append(byte)
        }
        #expect(buffer.readable.array == expected)
        #expect(buffer.capacity >= 1_000)
        #expect(buffer.capacity <= 4_000)
    }

    /// Copies of every length, at every offset of source and target, into exactly as much memory.
    @Test func slicesOfEveryLengthAreCopied() {
        let bytes = (0..<400).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) }
        for count in 0...300 {
            for (from, behind) in [(0, 0), (1, 3), (7, 16), (50, 33)] {
                var buffer = ByteBuffer(capacity: behind + count)
                buffer.append([UInt8](repeating: 0xEE, count: behind))
                buffer.append(bytes.rawBytes.extracting(from..<from + count))
                #expect(buffer.readable.array == [UInt8](repeating: 0xEE, count: behind) + bytes[from..<from + count])
                #expect(buffer.capacity == behind + count)
            }
        }
    }

    @Test func discardedBytesAreReusedWithoutGrowing() {
        var buffer = ByteBuffer(capacity: 64)
        buffer.append([UInt8](repeating: 1, count: 60))
        buffer.discard(50)
        buffer.append([UInt8](repeating: 2, count: 54))
        #expect(buffer.capacity == 64)
        #expect(buffer.readable.array == [UInt8](repeating: 1, count: 10) + [UInt8](repeating: 2, count: 54))
    }

    @Test func aQueueOfBytesStaysAQueue() {
        var random = SplitMix64(seed: 6)
        var buffer = ByteBuffer()
        var model: [UInt8] = []
        var next: UInt8 = 0
        for _ in 0..<20_000 {
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let count = Int.random(in: 0...min(model.count, 90), using: &random)
                buffer.discard(count)
                model.removeFirst(count)
            case 1:
                let kept = model.count - Int.random(in: 0...min(model.count, 5), using: &random)
                buffer.truncate(to: kept)
                model.removeLast(model.count - kept)
            case 2 where !model.isEmpty:
                let place = Int.random(in: 0..<model.count, using: &random)
                buffer.set(next, at: place)
                model[place] = next
            default:
                let bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in
                    next &+= 1
                    return next
                }
                buffer.append(bytes)
                model += bytes
            }
            #expect(buffer.count == model.count)
            if buffer.count % 8 == 0 { #expect(buffer.readable.array == model) }
        }
    }

    @Test(
        arguments: [
            0, 1, 9, 10, 99, 100, 12_345, 999_999_999_999_999_999, 1_000_000_000_000_000_000, 9_999_999_999_999_999_999,
            10_000_000_000_000_000_000, 18_446_744_073_709_551_614, UInt64.max,
        ] as [UInt64])
    func decimalsAreWritten(_ value: UInt64) {
        var buffer = ByteBuffer()
        buffer.append(decimal: value)
        #expect(buffer.text == "\(value)")
    }

    @Test func signedDecimalsAreWritten() {
        for value in [0, 7, -7, Int.max, Int.min] {
            var buffer = ByteBuffer()
            buffer.append(decimal: value)
            #expect(buffer.text == "\(value)")
        }
    }

    @Test(
        arguments: [(0, 1, "0"), (255, 2, "ff"), (255, 4, "00ff"), (0x1234, 2, "34"), (.max, 16, "ffffffffffffffff")]
            as [(UInt64, Int, String)])
    func hexadecimalHasTheWidthAskedFor(_ value: UInt64, _ digits: Int, _ text: String) {
        var buffer = ByteBuffer()
        buffer.append(hex: value, digits: digits)
        #expect(buffer.text == text)
    }

    @Test func theBytesOfAWordAreAppendedFromEitherEnd() {
        for count in 0...8 {
            var buffer = ByteBuffer()
            buffer.append(lowBytes: 0x0807_0605_0403_0201, count: count)
            buffer.append(highBytes: 0x0102_0304_0506_0708, count: count)
            let run = (1...8).prefix(count).map { UInt8($0) }
            #expect(buffer.readable.array == run + run)
        }
    }

    @Test func scalarsAreAppendedAsUTF8() {
        var buffer = ByteBuffer()
        for scalar in "aß漢🙂".unicodeScalars { buffer.append(scalar: scalar) }
        #expect(buffer.text == "aß漢🙂")
    }

    @Test func roomIsFilledInPlace() {
        var buffer = ByteBuffer()
        buffer.append("ab" as StaticString)
        buffer.withUnsafeRoom(8) { room in
            room[0] = UInt8(ascii: "c")
            return 1
        }
        buffer.withUnsafeRoom(0) { _ in 0 }
        #expect(buffer.text == "abc")
    }
}
