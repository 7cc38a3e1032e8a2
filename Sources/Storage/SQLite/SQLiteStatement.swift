internal import CSQLite

/// A prepared statement of one connection.
@safe final class SQLiteStatement {
    private let handle: OpaquePointer

    /// Takes the statement over.
    @unsafe init(adopting handle: OpaquePointer) { unsafe self.handle = handle }

    deinit { unsafe sqlite3_finalize(handle) }

    /// Gives `$1`, `$2` and so on their values; false if there are not just as many.
    func bind(_ values: [SQLValue]) -> Bool {
        guard Int(unsafe sqlite3_bind_parameter_count(handle)) == values.count else { return false }
        for (index, value) in values.enumerated() {
            // By name: SQLite numbers them in the order in which they first occur.
            let place = unsafe sqlite3_bind_parameter_index(handle, "$\(index + 1)")
            guard place > 0, bind(value, at: place) == SQLITE_OK else { return false }
        }
        return true
    }

    private func bind(_ value: SQLValue, at place: Int32) -> Int32 {
        switch value {
        case .null: unsafe sqlite3_bind_null(handle, place)
        case .integer(let value): unsafe sqlite3_bind_int64(handle, place, value)
        case .text(let text): unsafe csqlite_bind_text(handle, place, text, Int32(text.utf8.count))
        case .bytes(let bytes): unsafe csqlite_bind_bytes(handle, place, bytes, Int32(bytes.count))
        }
    }

    func step() -> Int32 { unsafe sqlite3_step(handle) }

    /// Makes it ready for the next time, and lets go of the values.
    func reset() {
        unsafe sqlite3_reset(handle)
        unsafe sqlite3_clear_bindings(handle)
    }

    /// The row that a step came upon.
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
