import CHiredis
import Wire

/// Encodes commands as RESP arrays of bulk strings.
enum RedisCommandFormat {
    /// Appends a command, encoded by hiredis.
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
}
