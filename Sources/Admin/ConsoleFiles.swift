internal import CSites
package import HTTP

/// The console's pages below `/console/`. All that they show comes from the admin API.
///
/// Browsers ask for each file again, which costs a 304, so that no page of one version calls a script of another.
package struct ConsoleFiles: Sendable {
    package static let path = "/console/"

    private let site = EmbeddedSite(Self.file)

    package init() {}

    private static func file(_ number: Int) -> (name: String, packed: [UInt8])? {
        let file = unsafe csites_console(number)
        guard let name = unsafe file.name, let bytes = unsafe file.bytes else { return nil }
        return unsafe (String(cString: name), Array(UnsafeBufferPointer(start: bytes, count: file.count)))
    }

    /// The names of all files.
    package var names: [String] { site.names }

    /// Answers a request at or below `/console`.
    package func answer(_ request: LocalRequest) -> LocalResponse {
        guard request.method == "GET" || request.method == "HEAD" else {
            return EmbeddedSite.plain(405, "method not allowed\n", [(name: "Allow", value: "GET, HEAD")])
        }
        guard request.path.hasPrefix(Self.path) else { return Self.redirection }
        let rest = String(request.path.dropFirst(Self.path.count))
        return site.answer(rest.isEmpty ? "index.html" : rest, missing: "The console has no such file.\n", to: request)
    }

    /// Leads to the console.
    static let redirection = LocalResponse(
        status: 303, contentType: "text/plain; charset=utf-8", body: Array("The console is at /console/\n".utf8),
        fields: [("Location", path)])
}
