package import Accounts
internal import Wire

/// Where accounts live, as `DATABASE_URL` says it.
package enum StoreLocation: Sendable, Equatable {
    /// A file, by its path.
    case sqlite(path: String)
    /// A server, by the URL as libpq reads it.
    case postgres(url: String)

    /// What is wrong with a URL, as a sentence for the operator. It never repeats the URL, which may hold a password.
    package struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// `sqlite:///path/to/file` (three slashes: the path is absolute) or `postgres://user:password@host/database`.
    package init(url: String) throws(Fault) {
        if url.hasPrefix("postgres://") || url.hasPrefix("postgresql://") {
            self = .postgres(url: url)
        } else if url.hasPrefix("sqlite://") {
            guard let path = Self.decoded(url.dropFirst(9)), path.hasPrefix("/"), path.count > 1 else {
                throw Fault(description: "names no file; write sqlite:///path/to/file, with three slashes")
            }
            self = .sqlite(path: path)
        } else {
            throw Fault(description: "is neither postgres://user:password@host/database nor sqlite:///path/to/file")
        }
    }

    /// The store, which connects at first use. nil if the system gives no threads. `connections` is for PostgreSQL: so
    /// many at most, each with a thread of its own. `onChange` hears of what this process changes.
    package func open(
        connections: Int = 8, start: ThreadStart, onChange: @escaping ChangeNotice = { _ in }
    ) -> SQLStore? {
        switch self {
        case .sqlite(let path): SQLiteDatabase(path: path, start: start, onChange: onChange).map { SQLStore($0) }
        case .postgres(let url):
            PostgresDatabase(url: url, connections: connections, start: start, onChange: onChange).map { SQLStore($0) }
        }
    }

    /// Hears of what anybody changes in this database; nil for one that does not tell, or if the system gives no threads.
    /// See `PostgresListener`.
    package func listen(
        start: ThreadStart, heard: @escaping @Sendable () -> Void, changed: @escaping @Sendable (String?) -> Void
    ) -> PostgresListener? {
        switch self {
        case .sqlite: nil
        case .postgres(let url): PostgresListener(url: url, start: start, heard: heard, changed: changed)
        }
    }

    /// Whether several machines can share it.
    package var isServer: Bool {
        switch self {
        case .sqlite: false
        case .postgres: true
        }
    }

    /// The text with its percent-encoded bytes decoded; nil if one is not, or if NUL is among them.
    private static func decoded(_ text: Substring) -> String? {
        guard let bytes = PercentEncoding.decode(text.utf8) else { return nil }
        return bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
    }
}
