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

    /// What every call of the script `sha` with so many keys and arguments (keys included) begins with, up to the first of
    /// them: hiredis formats it once, with empty arguments. It takes 7,000 instructions to format a call; `RedisCall` takes
    /// 300.
    static func callHead(sha: [UInt8], keys: Int, arguments: Int) -> [UInt8] {
        var call = RedisCommand()
        call.begin()
        call.append("EVALSHA")
        call.append(sha.rawBytes)
        call.append(decimal: keys)
        for _ in 0..<arguments { call.append("") }
        var bytes = ByteBuffer()
        append(call, to: &bytes)
        bytes.truncate(to: bytes.count - arguments * "$0\r\n\r\n".utf8.count)
        return bytes.readable.array
    }
}
