internal import CSites
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
        owner: .page, name: "page", dialect: .password, method: .get, path: String(path.dropLast()), isPrefix: true
    ) { services, request in services.page.answer(request.sent) }

    private let site: EmbeddedSite
    /// `assets/` and the version of all files.
    private let folder: String

    /// `authBase` is the base of the `password` contract, such as `/api/v1`, and `accountBase` that of `TOLLGATE_ACCOUNT`; nil if that is off.
    package init(authBase: String, accountBase: String? = nil, hasPasskeys: Bool = false, hasFactors: Bool = false) {
        let base = authBase.hasSuffix("/") ? String(authBase.dropLast()) : authBase
        var folder = ""
        site = EmbeddedSite(Self.file) { document, version in
            folder = "assets/" + version
            return document.replacing("{assets}", with: folder).replacing("{auth}", with: Self.escaped(base + "/auth"))
                .replacing("{account}", with: Self.escaped(accountBase ?? "")).replacing("{passkeys}", with: hasPasskeys ? "on" : "")
                .replacing("{factors}", with: hasFactors ? "on" : "")
        }
        self.folder = folder
    }

    /// Answers a GET or HEAD of a path at or below `/web`.
    package func answer(_ request: LocalRequest) -> LocalResponse {
        guard request.path.hasPrefix(Self.path) else {
            return LocalResponse(status: 308, contentType: "text/plain", body: [], fields: [("Location", Self.path + request.query)])
        }
        let rest = request.path.dropFirst(Self.path.count)
        if rest.isEmpty || rest == "index.html" { return site.answer("index.html", missing: "", to: request) }
        let parts = rest.split(separator: "/", omittingEmptySubsequences: false)
        let name = parts.count == 3 && parts[0] == "assets" && parts[2] != "index.html" ? String(parts[2]) : ""
        // During a rolling upgrade another version may have served the document.
        let isCurrent = rest.hasPrefix(folder + "/")
        return site.answer(
            name, caching: isCurrent ? "public, max-age=31536000, immutable" : "no-cache", missing: "There is nothing here.\n", to: request)
    }

    private static func file(_ number: Int) -> (name: String, packed: [UInt8])? {
        let file = unsafe csites_web(number)
        guard let name = unsafe file.name, let bytes = unsafe file.bytes else { return nil }
        return unsafe (String(cString: name), Array(UnsafeBufferPointer(start: bytes, count: file.count)))
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("\"", with: "&quot;").replacing("<", with: "&lt;")
    }
}
