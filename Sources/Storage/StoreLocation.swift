internal import Accounts
package import Threads
internal import Wire

/// The database of `TOLLGATE_DATABASE_URL` or `DATABASE_URL`. Another database is a case here and a folder beside `SQLite`.
package enum StoreLocation: Sendable, Equatable {
    /// A file, by its path.
    case sqlite(path: String)
    /// A server, by its libpq URL, and the schema of new installations.
    case postgres(url: String, schema: String = "tollgate")

    /// Why a URL is not accepted, as a message for the operator. Never contains the URL, which may hold a password.
    package struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    /// `sqlite:///path/to/file` (three slashes: the path is absolute) or `postgres://user:password@host/database`.
    package init(url: String, schema: String = "tollgate") throws(Fault) {
        if url.hasPrefix("postgres://") || url.hasPrefix("postgresql://") {
            if let fault = Self.fault(ofServer: url) { throw Fault(description: fault) }
            self = .postgres(url: url, schema: schema)
        } else if url.hasPrefix("sqlite://") {
            guard let path = Self.decoded(url.dropFirst(9)), path.hasPrefix("/"), path.count > 1 else {
                throw Fault(description: "names no file; write sqlite:///path/to/file, with three slashes")
            }
            self = .sqlite(path: path)
        } else {
            throw Fault(description: "is neither postgres://user:password@host/database nor sqlite:///path/to/file")
        }
    }

    /// The store, which connects at first use; nil if no threads can be started. `connections` is the size of PostgreSQL's pool,
    /// one thread each; `primary` is shared with its listener. `onChange` is called for the changes of this process, before the call
    /// that changed something returns; `onOutcome` on any thread.
    package func open(
        connections: Int = 8, primary: DatabasePrimary = DatabasePrimary(), start: ThreadStart,
        onOutcome: @escaping @Sendable (StoreOutcome) -> Void = { _ in }, onChange: @escaping ChangeNotice = { _ in }
    ) -> SQLStore? {
        let database: (any SQLDatabase)? =
            switch self {
            case .sqlite(let path): SQLiteDatabase(path: path, start: start, onChange: onChange)
            case .postgres(let url, let schema):
                PostgresDatabase(
                    url: url, schema: PostgresSchema(schema), connections: connections, primary: primary, start: start, onChange: onChange)
            }
        return database.map { SQLStore(ReportingDatabase($0, report: onOutcome), report: onOutcome) }
    }

    /// Listens for changes by any program; nil for a database without notifications, or if no thread can be started. See
    /// `PostgresListener`.
    package func listen(
        isDirect: Bool = false, primary: DatabasePrimary = DatabasePrimary(), start: ThreadStart, heard: @escaping @Sendable () -> Void,
        changed: @escaping @Sendable (String?) -> Void
    ) -> PostgresListener? {
        switch self {
        case .sqlite: nil
        case .postgres(let url, let schema):
            PostgresListener(
                url: url, schema: PostgresSchema(schema), isDirect: isDirect, primary: primary, start: start, heard: heard, changed: changed
            )
        }
    }

    /// Whether several machines can share the database.
    package var isServer: Bool {
        switch self {
        case .sqlite: false
        case .postgres: true
        }
    }

    /// Why the file must not be used: it has tables of another program and none of ours; nil if it may be. Opens the file for reading
    /// only, and says nothing about one that is missing or cannot be read.
    package var otherProgram: String? {
        guard case .sqlite(let path) = self else { return nil }
        do throws(SQLFault) { return try SQLiteConnection(inspecting: path).otherProgram() } catch { return nil }
    }

    /// A mistake that libpq would report with a part of the password in its message.
    private static func fault(ofServer url: String) -> String? {
        guard let decoded = PercentEncoding.decode(url.utf8) else {
            return "has a % without two hexadecimal digits after it: write % as %25"
        }
        guard !decoded.contains(0) else { return "contains %00, which PostgreSQL takes nowhere" }
        var rest = url.drop { $0 != ":" }.dropFirst(3)
        // As libpq reads it: name and password end at the first @, unless there is a / before it.
        let authority = rest.prefix { $0 != "/" }
        if let end = authority.firstIndex(of: "@") { rest = rest[end...].dropFirst() }
        let address = rest.prefix { $0 != "?" }
        guard !address.contains("@") else { return "has an @ or / in a name or password: write @ as %40 and / as %2F" }
        for server in address.prefix(while: { $0 != "/" }).split(separator: ",") {
            let name = server.hasPrefix("[") ? server.drop { $0 != "]" } : server
            guard name.drop(while: { $0 != ":" }).dropFirst().utf8.allSatisfy(\.isASCIIDigit) else {
                return "has a port that is no number; a / or ? in a name or password is written %2F or %3F"
            }
        }
        return nil
    }

    /// Percent-decodes a text; nil if it is malformed, not UTF-8, or contains NUL.
    private static func decoded(_ text: Substring) -> String? {
        guard let bytes = PercentEncoding.decode(text.utf8) else { return nil }
        return bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
    }
}
