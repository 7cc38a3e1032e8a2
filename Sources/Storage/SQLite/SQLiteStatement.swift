internal import CSQLite

/// A prepared statement of one connection.
@safe final class SQLiteStatement {
    private let handle: OpaquePointer
    /// The number that SQLite gives to each of `$1`, `$2` and so on, by the order in which they first occur; 0 for one that is missing.
    private let indices: [Int32]

    /// Takes ownership of the statement.
    @unsafe init(adopting handle: OpaquePointer) {
        unsafe self.handle = handle
        let count = unsafe sqlite3_bind_parameter_count(handle)
        indices = (0..<count).map { unsafe sqlite3_bind_parameter_index(handle, "$\($0 + 1)") }
    }

    deinit { unsafe sqlite3_finalize(handle) }

    /// Binds `$1`, `$2` and so on; false if the number of parameters is another.
    func bind(_ values: [SQLValue]) -> Bool {
        guard values.count == indices.count else { return false }
        for (value, index) in zip(values, indices) {
            guard index > 0, bind(value, at: index) == SQLITE_OK else { return false }
        }
        return true
    }

    private func bind(_ value: SQLValue, at index: Int32) -> Int32 {
        switch value {
        case .null: unsafe sqlite3_bind_null(handle, index)
        case .integer(let value): unsafe sqlite3_bind_int64(handle, index, value)
        case .text(let text): unsafe csqlite_bind_text(handle, index, text, Int32(text.utf8.count))
        case .bytes(let bytes): unsafe csqlite_bind_bytes(handle, index, bytes, Int32(bytes.count))
        }
    }

    func step() -> Int32 { unsafe sqlite3_step(handle) }

    /// Resets the statement for its next run, and releases the values.
    func reset() {
        unsafe sqlite3_reset(handle)
        unsafe sqlite3_clear_bindings(handle)
    }

    /// The current row.
    func row() -> [SQLValue] { (0..<(unsafe sqlite3_column_count(handle))).map(value) }

    private func value(_ column: Int32) -> SQLValue {
        switch unsafe sqlite3_column_type(handle, column) {
        case SQLITE_INTEGER: return .integer(unsafe sqlite3_column_int64(handle, column))
        case SQLITE_NULL: return .null
        case SQLITE_TEXT:
            let start = unsafe sqlite3_column_text(handle, column)
            let count = Int(unsafe sqlite3_column_bytes(handle, column))
            return .text(unsafe String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self))
        default:
            let start = unsafe sqlite3_column_blob(handle, column)
            let count = Int(unsafe sqlite3_column_bytes(handle, column))
            return .bytes(unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: count)))
        }
    }
}
