internal import CPostgres

/// The servers of a URL behind the one at which libpq gave up.
///
/// libpq tries the next server after a refused connection and after one that is still starting, but not after a connection that was
/// closed without an answer. A proxy or port forwarding closes connections so when its server is dead.
struct RemainingHosts {
    private static let lists = ["host", "hostaddr", "port"]

    /// Settings of libpq that name these servers alone, to be given after the URL.
    let settings: [(String, String)]

    /// nil if `handle` failed at the last server.
    @unsafe init?(behind handle: OpaquePointer) {
        var lists: [String: [String]] = [:]
        guard let options = unsafe PQconninfo(handle) else { return nil }
        defer { unsafe PQconninfoFree(options) }
        var option = unsafe options
        while let keyword = unsafe option.pointee.keyword {
            let name = unsafe String(cString: keyword)
            if Self.lists.contains(name), let value = unsafe option.pointee.val {
                lists[name] = unsafe String(cString: value).split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            }
            unsafe option += 1
        }
        let (host, port) = unsafe (Self.text(PQhost(handle)), Self.text(PQport(handle)))
        self.init(lists, behind: host, port)
    }

    /// `lists` are the comma-separated settings of libpq; `host` and `port` are the server at which it gave up.
    init?(_ lists: [String: [String]], behind host: String, _ port: String) {
        let count = max(lists["host"]?.count ?? 0, lists["hostaddr"]?.count ?? 0)
        let named = lists["host"] ?? lists["hostaddr"] ?? []
        let failed = named.indices.last { index in
            guard named[index] == host else { return false }
            guard let ports = lists["port"], ports.count == count, !ports[index].isEmpty else { return true }
            return ports[index] == port
        }
        guard let failed, failed + 1 < count else { return nil }
        settings = Self.lists.compactMap { name in
            // A single port is that of every server.
            lists[name].flatMap { $0.count == count ? (name, $0[(failed + 1)...].joined(separator: ",")) : nil }
        }
    }

    @unsafe private static func text(_ pointer: UnsafeMutablePointer<CChar>?) -> String {
        unsafe pointer.map { unsafe String(cString: $0) } ?? ""
    }
}
