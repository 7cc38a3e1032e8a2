import CHiredis
import Wire

/// Commands as the server reads them: an array of bulk strings.
enum RedisCommandFormat {
    /// Appends a command of the server's, as hiredis formats it.
    static func append(_ command: borrowing RedisCommand, to out: inout ByteBuffer) {
        let count = command.ends.count
        precondition(count > 0, "a command without a name")
        unsafe withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: count) { starts in
            unsafe withUnsafeTemporaryAllocation(of: Int.self, capacity: count) { counts in
                unsafe command.texts.readable.withUnsafeBytes { texts in
                    var start = 0
                    for (index, end) in command.ends.enumerated() {
                        unsafe starts.initializeElement(at: index, to: (texts.baseAddress! + start).assumingMemoryBound(to: CChar.self))
                        unsafe counts.initializeElement(at: index, to: end - start)
                        start = end
                    }
                    unsafe append(starts, counts, to: &out)
                }
            }
        }
    }

    private static func append(
        _ starts: UnsafeMutableBufferPointer<UnsafePointer<CChar>?>, _ counts: UnsafeMutableBufferPointer<Int>,
        to out: inout ByteBuffer
    ) {
        var count = 0
        guard let bytes = unsafe chiredis_format(Int32(starts.count), starts.baseAddress, counts.baseAddress, &count) else {
            preconditionFailure("out of memory")
        }
        unsafe out.append(RawSpan(_unsafeStart: bytes, byteCount: count))
        unsafe chiredis_format_free(bytes)
    }

    /// What every call of the script `sha` with so many arguments begins with, up to the first of them: hiredis formats
    /// it once, with empty arguments. hiredis takes 7,000 instructions to format a call; to append its arguments takes 300.
    static func callHead(sha: [UInt8], arguments: Int) -> [UInt8] {
        var call = RedisCommand()
        call.begin()
        call.append("EVALSHA")
        call.append(sha.rawBytes)
        for _ in 0..<arguments { call.append("") }
        var bytes = ByteBuffer()
        append(call, to: &bytes)
        bytes.truncate(to: bytes.count - arguments * "$0\r\n\r\n".utf8.count)
        return bytes.readable.array
    }

    /// Appends a call of a script that begins with `head`, which was made for as many arguments.
    static func append(call: borrowing RedisCommand, head: [UInt8], to out: inout ByteBuffer) {
        out.append(head.rawBytes)
        var start = 0
        for end in call.ends {
            appendLength(end - start, to: &out)
            out.append(call.texts.readable.extracting(start..<end))
            out.append("\r\n")
            start = end
        }
    }

    /// What stands before an argument of so many bytes; mostly a word.
    private static func appendLength(_ count: Int, to out: inout ByteBuffer) {
        guard count < 100 else {
            out.append(UInt8(ascii: "$"))
            out.append(decimal: count)
            return out.append("\r\n")
        }
        let (tens, ones) = (UInt64(count / 10) | 0x30, UInt64(count % 10) | 0x30)
        if tens == 0x30 { return out.append(lowBytes: 0x0A0D_0024 | ones << 8, count: 4) }
        out.append(lowBytes: 0x0A_0D00_0024 | tens << 8 | ones << 16, count: 5)
    }
}
