internal import Accounts
internal import Credentials
internal import Wire

/// A parameter of a statement, or a column of a row.
enum SQLValue: Sendable, Equatable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])

    static func id(_ id: UUID) -> Self { .bytes(id.bytes) }
    static func id(_ id: UUID?) -> Self { id.map { .bytes($0.bytes) } ?? .null }
    /// Microseconds since 1970.
    static func time(_ time: WallTime) -> Self { .integer(time.microseconds) }
    static func time(_ time: WallTime?) -> Self { time.map { .integer($0.microseconds) } ?? .null }
    static func thumbprint(_ key: KeyThumbprint?) -> Self { key.map { .bytes($0.bytes) } ?? .null }
    static func text(_ text: String?) -> Self { text.map { .text($0) } ?? .null }
    static func flag(_ flag: Bool) -> Self { .integer(flag ? 1 : 0) }
    /// Counters stay below 2^63.
    static func counter(_ counter: UInt64) -> Self { .integer(Int64(clamping: counter)) }
}

/// Why a statement or a transaction failed.
enum SQLFault: Error, Equatable {
    /// It conflicts with a concurrent transaction; a retry may succeed.
    case conflict
    /// A lock was held, or a statement ran, for longer than a call may wait. Nothing was changed, and the connection stays.
    case busy(String)
    /// The connection broke, or the database is late or out of space. A commit in progress may have been applied.
    case lost(String)
    /// A permanent refusal, or data that cannot be read.
    case failed(String)
    /// The account may not sign in.
    case banned(Ban)

    var reason: String {
        switch self {
        case .conflict: "transactions kept meeting each other"
        case .busy(let reason), .lost(let reason), .failed(let reason): reason
        case .banned: "the account is banned"
        }
    }
}

/// A row of a result, read column by column, left to right.
struct SQLRow: Sendable {
    private let values: [SQLValue]
    private var column = 0

    init(_ values: [SQLValue]) { self.values = values }

    mutating func integer() throws(SQLFault) -> Int64 {
        guard let value = try optionalInteger() else { throw unfit("a number") }
        return value
    }

    /// A number that only the gateway counts up, from 0: one more of it can be stored, too.
    mutating func count() throws(SQLFault) -> Int64 {
        let value = try integer()
        guard 0..<Int64.max ~= value else { throw unfit("a count") }
        return value
    }

    mutating func optionalInteger() throws(SQLFault) -> Int64? {
        let value = next()
        if value == .null { return nil }
        guard case .integer(let number) = value else { throw unfit("a number") }
        return number
    }

    mutating func text() throws(SQLFault) -> String {
        guard let value = try optionalText() else { throw unfit("a text") }
        return value
    }

    mutating func optionalText() throws(SQLFault) -> String? {
        let value = next()
        if value == .null { return nil }
        guard case .text(let text) = value else { throw unfit("a text") }
        return text
    }

    mutating func bytes() throws(SQLFault) -> [UInt8] {
        guard case .bytes(let value) = next() else { throw unfit("bytes") }
        return value
    }

    mutating func optionalBytes() throws(SQLFault) -> [UInt8]? {
        switch next() {
        case .null: return nil
        case .bytes(let bytes): return bytes
        default: throw unfit("bytes")
        }
    }

    mutating func id() throws(SQLFault) -> UUID {
        let bytes = try bytes()
        guard let id = UUID(bytes: bytes.rawBytes) else { throw unfit("an id") }
        return id
    }

    mutating func optionalID() throws(SQLFault) -> UUID? {
        if column < values.count, values[column] == .null {
            column += 1
            return nil
        }
        return try id()
    }

    mutating func time() throws(SQLFault) -> WallTime { WallTime(microseconds: try integer()) }

    mutating func optionalTime() throws(SQLFault) -> WallTime? {
        try optionalInteger().map { WallTime(microseconds: $0) }
    }

    mutating func flag() throws(SQLFault) -> Bool { try integer() != 0 }

    mutating func contract() throws(SQLFault) -> ContractID {
        guard let contract = try optionalContract() else { throw unfit("a contract") }
        return contract
    }

    mutating func optionalContract() throws(SQLFault) -> ContractID? {
        guard let number = try optionalInteger() else { return nil }
        guard let contract = UInt8(exactly: number).flatMap(ContractID.init) else { throw unfit("a contract") }
        return contract
    }

    /// nil for a text that is no address, too.
    mutating func optionalThumbprint() throws(SQLFault) -> KeyThumbprint? {
        guard let bytes = try optionalBytes() else { return nil }
        guard let key = KeyThumbprint(bytes: bytes) else { throw unfit("the thumbprint of a key") }
        return key
    }

    mutating func optionalAddress() throws(SQLFault) -> IPAddress? { try optionalText().flatMap { IPAddress(parsing: $0) } }

    /// A text that is a raw value of `Word`.
    mutating func word<Word: RawRepresentable<String>>(_: Word.Type) throws(SQLFault) -> Word {
        guard let word = Word(rawValue: try text()) else { throw unfit("a known word") }
        return word
    }

    /// The same; nil for NULL.
    mutating func optionalWord<Word: RawRepresentable<String>>(_: Word.Type) throws(SQLFault) -> Word? {
        guard let text = try optionalText() else { return nil }
        guard let word = Word(rawValue: text) else { throw unfit("a known word") }
        return word
    }

    /// A missing column reads as NULL.
    private mutating func next() -> SQLValue {
        defer { column += 1 }
        return column < values.count ? values[column] : .null
    }

    private func unfit(_ wanted: String) -> SQLFault { .failed("column \(column) of a row is not \(wanted)") }
}
