/// The parameters of a statement for libpq, in binary format, in one buffer.
@safe struct PostgresParameters {
    private var bytes: [UInt8] = []
    /// The offset of each value; nil for NULL.
    private var starts: [Int?] = []
    private var lengths: [Int32] = []

    init(_ values: [SQLValue]) {
        for value in values { append(value) }
        // An empty array has no address, which libpq would read as NULL.
        bytes.append(0)
    }

    private mutating func append(_ value: SQLValue) {
        let start = bytes.count
        switch value {
        case .null: break
        case .integer(let value):
            for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: value >> (56 - 8 * shift))) }
        case .text(let text): bytes += text.utf8
        case .bytes(let value): bytes += value
        }
        starts.append(value == .null ? nil : start)
        lengths.append(Int32(bytes.count - start))
    }

    /// Calls `body` with the addresses, lengths and formats of the values.
    @unsafe func withPointers<Value>(
        _ body: (UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> Value
    ) -> Value {
        let formats = [Int32](repeating: 1, count: starts.count)
        return unsafe bytes.withUnsafeBytes { buffer in
            let base = unsafe buffer.bindMemory(to: CChar.self).baseAddress
            var pointers: [UnsafePointer<CChar>?] = unsafe []
            for start in starts {
                guard let start, let base = unsafe base else {
                    unsafe pointers.append(nil)
                    continue
                }
                unsafe pointers.append(base + start)
            }
            return unsafe body(pointers, lengths, formats)
        }
    }
}

/// Calls `body` with the addresses of NUL-terminated texts, followed by a null pointer.
@unsafe func withPointers<Value>(
    _ texts: [[CChar]], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Value
) -> Value {
    let all = texts.flatMap { $0 }
    return unsafe all.withUnsafeBufferPointer { buffer in
        var pointers: [UnsafePointer<CChar>?] = unsafe []
        var start = 0
        for text in texts {
            unsafe pointers.append(buffer.baseAddress.map { unsafe $0 + start })
            start += text.count
        }
        unsafe pointers.append(nil)
        return unsafe body(pointers)
    }
}
