internal import CConsole
internal import Gate
package import HTTP
internal import Wire

/// The console's pages below `/console/`: the files of `Sources/Admin/Console`, embedded in the program.
///
/// They hold no data and need no sign-in; all that they show comes from the admin API. Browsers ask for each file again, which
/// costs a 304, so that no page of one version calls a script of another.
package struct ConsoleFiles: Sendable {
    package static let path = "/console/"

    private struct File: Sendable {
        let type: String
        let body: [UInt8]
        let tag: String
    }

    private let files: [String: File]

    package init() {
        var files: [String: File] = [:]
        var number = 0
        while let (name, body) = Self.embedded(number) {
            files[name] = File(type: Self.type(of: name), body: body, tag: Self.tag(of: body))
            number += 1
        }
        self.files = files
    }

    /// The names of all files.
    package var names: [String] { files.keys.sorted() }

    private static func embedded(_ number: Int) -> (name: String, body: [UInt8])? {
        let file = unsafe cconsole_file_at(number)
        guard let name = unsafe file.name, let bytes = unsafe file.bytes else { return nil }
        return unsafe (String(cString: name), Array(UnsafeBufferPointer(start: bytes, count: file.count)))
    }

    /// Answers a request at or below `/console`.
    package func answer(_ request: LocalRequest) -> LocalResponse {
        guard request.method == "GET" || request.method == "HEAD" else {
            return .plain(405, "method not allowed\n", [(name: "Allow", value: "GET, HEAD")] + Self.securityFields)
        }
        guard request.path.hasPrefix(Self.path) else { return Self.redirection }
        let rest = String(request.path.dropFirst(Self.path.count))
        guard let file = files[rest.isEmpty ? "index.html" : rest] else {
            return .plain(404, "The console has no such file.\n", Self.securityFields)
        }
        let isKnown = request.fields.contains { $0.name.lowercased() == "if-none-match" && Self.names(file.tag, in: $0.value) }
        return LocalResponse(
            status: isKnown ? 304 : 200, contentType: file.type, body: isKnown ? [] : file.body,
            fields: Self.securityFields + [("Cache-Control", "no-cache"), ("ETag", file.tag)])
    }

    /// Leads to the console.
    static let redirection = LocalResponse(
        status: 303, contentType: "text/plain; charset=utf-8", body: Array("The console is at /console/\n".utf8),
        fields: [("Location", path)])

    /// Whether a value of `If-None-Match` names the tag (RFC 9110 §13.1.2).
    private static func names(_ tag: String, in value: String) -> Bool {
        value.split(separator: ",").contains { part in
            let word = part.drop { $0 == " " || $0 == "\t" }.prefix { $0 != " " && $0 != "\t" }
            return word == "*" || word == tag || word == "W/" + tag
        }
    }

    private static func type(of name: String) -> String {
        switch name.split(separator: ".").last {
        case "html": "text/html; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "js": "text/javascript; charset=utf-8"
        case "svg": "image/svg+xml"
        default: "application/octet-stream"
        }
    }

    /// A quoted hash, which tells versions apart; not cryptographic.
    private static func tag(of bytes: [UInt8]) -> String {
        var out = ByteBuffer(capacity: 18)
        out.append("\"")
        out.append(hex: KeyedHash(first: 0, second: 0).hash64(bytes.rawBytes), digits: 16)
        out.append("\"")
        return out.readable.text
    }

    /// The pages may load and call only their own origin, and no other page may frame them.
    private static let securityFields: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
    ]
}
