internal import Gate
package import HTTP
internal import Wire

/// `/web/`: a page to register, sign in, and show the account and its sessions. It calls the `password` contract and
/// `WebAccount`, and loads nothing from elsewhere.
///
/// The path of its files contains a hash over all of them, so that browsers can cache them for ever and never mix versions.
package struct WebPage: Sendable {
    /// The path of the document.
    package static let path = "/web/"

    /// Answers at and below the page's path. The endpoints of `WebAccount` lie below it too and are more specific.
    static let endpoint = CatalogueEndpoint(
        contract: nil, name: "web-page", shortName: "page", dialect: .password, method: .get, path: String(path.dropLast()),
        isPrefix: true, auth: .none
    ) { router, request in router.page.answer(request) }

    private struct File: Sendable {
        let type: String
        let body: [UInt8]
        let tag: String

        init(_ type: String, _ text: String) {
            self.type = type
            body = Array(text.utf8)
            tag = WebPage.hash(body)
        }
    }

    private let document: File
    private let files: [String: File]
    /// `assets/` and the hash over all files.
    private let folder: String

    /// `authBase` is the base of the `password` contract, such as `/api/v1`.
    package init(authBase: String) {
        let files = [
            "page.css": File("text/css; charset=utf-8", Self.style),
            "page.js": File("text/javascript; charset=utf-8", Self.script),
            "session.js": File("text/javascript; charset=utf-8", Self.sessionScript),
            "icon.svg": File("image/svg+xml", Self.icon),
        ]
        let tags = files.sorted { $0.key < $1.key }.map(\.value.tag).joined()
        folder = "assets/" + Self.hash(Array(tags.utf8))
        let base = authBase.hasSuffix("/") ? String(authBase.dropLast()) : authBase
        let markup = Self.markup.replacing("{assets}", with: folder).replacing("{auth}", with: Self.escaped(base + "/auth"))
        document = File("text/html; charset=utf-8", markup)
        self.files = files
    }

    /// Answers a GET or HEAD of a path at or below `/web`.
    package func answer(_ request: LocalRequest) -> LocalResponse {
        guard request.path.hasPrefix(Self.path) else {
            return LocalResponse(status: 308, contentType: "text/plain", body: [], fields: [("Location", Self.path + request.query)])
        }
        let rest = request.path.dropFirst(Self.path.count)
        if rest.isEmpty || rest == "index.html" { return answer(document, caching: "no-cache", request) }
        let parts = rest.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "assets", let file = files[String(parts[2])] else { return Self.missing }
        // During a rolling upgrade another version may have served the document.
        let isCurrent = rest.hasPrefix(folder + "/")
        return answer(file, caching: isCurrent ? "public, max-age=31536000, immutable" : "no-cache", request)
    }

    private func answer(_ file: File, caching: String, _ request: LocalRequest) -> LocalResponse {
        let tag = "\"\(file.tag)\""
        let fields = Self.securityFields + [("Cache-Control", caching), ("ETag", tag)]
        let known = request.fields.filter { $0.name.lowercased() == "if-none-match" }.map(\.value)
        let isKnown = known.contains { $0.split(separator: ",").contains { $0.trimmed == tag || $0.trimmed == "W/" + tag || $0.trimmed == "*" } }
        return LocalResponse(status: isKnown ? 304 : 200, contentType: file.type, body: isKnown ? [] : file.body, fields: fields)
    }

    private static let missing = LocalResponse(
        status: 404, contentType: "text/plain; charset=utf-8", body: Array("There is nothing here.\n".utf8), fields: securityFields)

    /// Restricts browsers to loading the page's own files and calling its own origin.
    private static let securityFields: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()"),
    ]

    /// 16 hex digits that tell versions apart; not cryptographic.
    private static func hash(_ bytes: [UInt8]) -> String {
        var out = ByteBuffer(capacity: 16)
        out.append(hex: KeyedHash(first: 0, second: 0).hash64(bytes.rawBytes), digits: 16)
        return out.readable.text
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("\"", with: "&quot;").replacing("<", with: "&lt;")
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        var text = self
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}
