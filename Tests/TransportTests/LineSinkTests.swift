import Glibc
import Testing
import Threads
import Wire

@Suite struct LineSinkTests {
    /// As those of a gateway and of the one that replaces it.
    @Test func twoWritersOfOnePipeDoNotTearLinesApart() throws {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        let sinks = try (0..<2).map { _ in try LineSink(descriptor: ends[1]) }
        let letters = [UInt8(ascii: "a"), UInt8(ascii: "b")]
        for round in 0..<200 {
            for (sink, letter) in zip(sinks, letters) {
                var lines = ByteBuffer()
                for _ in 0..<30 { lines.append([UInt8](repeating: letter, count: 300 + round) + [UInt8(ascii: "\n")]) }
                sink.write(lines.readable)
            }
        }
        let expected = 2 * 30 * (0..<200).reduce(0) { $0 + 301 + $1 }
        var (bytes, room): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: 1_000))
        while bytes.count < expected, case let count = read(ends[0], &room, room.count), count > 0 { bytes += room.prefix(count) }
        for sink in sinks { sink.close() }
        for end in ends { close(end) }
        let lines = bytes.split(separator: UInt8(ascii: "\n"))
        #expect(lines.count == 2 * 200 * 30)
        #expect(lines.allSatisfy { line in (300..<500).contains(line.count) && line.allSatisfy { $0 == line.first } })
    }

    @Test func aLineLongerThanAPieceIsWrittenToo() throws {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        let sink = try LineSink(descriptor: ends[1])
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: 10_000) + [UInt8(ascii: "\n")]
        var lines = ByteBuffer()
        for _ in 0..<3 { lines.append(long) }
        sink.write(lines.readable)
        var (count, room) = (0, [UInt8](repeating: 0, count: 65_536))
        // Closing waits for a second: on a busy machine its thread may not have written by then.
        while count < 3 * long.count, case let part = read(ends[0], &room, room.count), part > 0 { count += part }
        sink.close()
        close(ends[1])
        while case let part = read(ends[0], &room, room.count), part > 0 { count += part }
        close(ends[0])
        #expect(count == 3 * long.count)
    }
}
