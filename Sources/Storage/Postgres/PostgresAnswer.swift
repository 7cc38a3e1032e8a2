internal import CPostgres
internal import Glibc

/// One result of the server. The libpq result is copied and freed.
struct PostgresAnswer {
    /// An error of the server.
    struct Refusal {
        /// SQLSTATE: five letters.
        let state: String
        let message: String
    }

    private(set) var rows: [SQLRow] = []
    private(set) var changed = 0
    private(set) var refusal: Refusal?

    /// nil for a null pointer, which ends the results of a statement.
    @unsafe init?(_ result: OpaquePointer?) {
        guard let result = unsafe result else { return nil }
        defer { unsafe PQclear(result) }
        switch unsafe PQresultStatus(result) {
        case PGRES_TUPLES_OK:
            unsafe readRows(result)
            unsafe readCount(result)
        case PGRES_COMMAND_OK: unsafe readCount(result)
        // Skipped behind a statement that failed, or the end of a message.
        case PGRES_PIPELINE_ABORTED, PGRES_PIPELINE_SYNC: break
        default:
            let state = unsafe PQresultErrorField(result, CPOSTGRES_SQLSTATE)
            let message = unsafe PQresultErrorMessage(result)
            refusal = Refusal(
                state: unsafe state.map { unsafe String(cString: $0) } ?? "08000",
                message: unsafe message.map { unsafe String(cString: $0) }?.split(separator: "\n").first.map(String.init)
                    ?? "no reason given")
        }
    }

    @unsafe private mutating func readCount(_ result: OpaquePointer) {
        changed = unsafe PQcmdTuples(result).flatMap { unsafe Int(String(cString: $0)) } ?? 0
    }

    @unsafe private mutating func readRows(_ result: OpaquePointer) {
        let columns = unsafe PQnfields(result)
        for row in 0..<(unsafe PQntuples(result)) {
            rows.append(SQLRow((0..<columns).map { unsafe Self.value(result, row, $0) }))
        }
    }

    /// All values arrive in binary format. Types that no statement returns are read as bytes.
    @unsafe private static func value(_ result: OpaquePointer, _ row: Int32, _ column: Int32) -> SQLValue {
        guard unsafe PQgetisnull(result, row, column) == 0 else { return .null }
        let start = unsafe PQgetvalue(result, row, column)
        let count = Int(unsafe PQgetlength(result, row, column))
        let bytes = unsafe UnsafeRawBufferPointer(start: start, count: count)
        switch unsafe PQftype(result, column) {
        case 20, 21, 23: return .integer(unsafe integer(bytes))
        case 25, 1043: return .text(unsafe String(decoding: bytes, as: UTF8.self))
        default: return .bytes(unsafe [UInt8](bytes))
        }
    }

    /// A big-endian signed integer of two, four or eight bytes.
    @unsafe private static func integer(_ bytes: UnsafeRawBufferPointer) -> Int64 {
        var value: Int64 = unsafe (bytes.first ?? 0) >= 0x80 ? -1 : 0
        // swift-format-ignore
        for unsafe byte in unsafe bytes { value = value << 8 | Int64(byte) }
        return value
    }
}

/// Waits for a server with a deadline, which libpq's blocking calls do not have.
enum PostgresWait {
    /// False if no result arrives in time. True for a broken connection too: reading it returns the error.
    @unsafe static func forAnswer(_ handle: OpaquePointer, milliseconds: Int32) -> Bool {
        let deadline = ContinuousClock.now.advanced(by: .milliseconds(Int(milliseconds)))
        while true {
            guard unsafe PQisBusy(handle) == 1, unsafe PQconsumeInput(handle) == 1, unsafe PQisBusy(handle) == 1 else { return true }
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { return false }
            var entry = pollfd(fd: unsafe PQsocket(handle), events: Int16(POLLIN), revents: 0)
            unsafe poll(&entry, 1, Int32(left / .milliseconds(1)) + 1)
        }
    }
}
