internal import Wire

/// A site of the gateway's own: the files of a folder, embedded in the program.
///
/// They hold no data and need no sign-in, and may load and call only their own origin.
package struct EmbeddedSite: Sendable {
    private struct File: Sendable {
        let type: String
        let body: [UInt8]
        /// The same, packed with gzip.
        let packed: [UInt8]
        /// Tells versions apart, 16 hexadecimal digits.
        let tag: String
    }

    private var files: [String: File] = [:]

    /// `file` gives the file of a number from 0, packed with gzip, nil behind the last. `fill` completes the text of `index.html`; it gets the version of
    /// all files.
    package init(
        _ file: (Int) -> (name: String, packed: [UInt8])?,
        fill: (_ document: String, _ version: String) -> String = { document, _ in document }
    ) {
        var number = 0
        while let (name, packed) = file(number) {
            add(name, Self.unpacked(packed), packed)
            number += 1
        }
        let version = self.version
        guard let document = files["index.html"] else { return }
        let body = Array(fill(document.body.rawBytes.text, version).utf8)
        add("index.html", body, Self.packed(body))
    }

    private mutating func add(_ name: String, _ body: [UInt8], _ packed: [UInt8]) {
        files[name] = File(type: Self.type(of: name), body: body, packed: packed, tag: Self.tag(of: body))
    }

    private static func unpacked(_ content: [UInt8]) -> [UInt8] {
        var input = ByteBuffer()
        var out = ByteBuffer()
        input.append(content)
        guard var decoder = ContentDecoder(.gzip) else { preconditionFailure("out of memory") }
        while decoder.decode(&input, room: 65_536, into: &out) == .full {}
        return out.readable.array
    }

    private static func packed(_ content: [UInt8]) -> [UInt8] {
        var out = ByteBuffer()
        guard var encoder = ContentEncoder(.gzip), encoder.begin(padding: 0) else { preconditionFailure("out of memory") }
        encoder.encode(content.rawBytes, .finish, into: &out)
        return out.readable.array
    }

    /// A hash of all files.
    package var version: String { Self.tag(of: Array(names.compactMap { files[$0]?.tag }.joined().utf8)) }

    /// The names of all files.
    package var names: [String] { files.keys.sorted() }

    /// Answers a GET or HEAD of a file; 404 if there is none of this name, with `missing` for people.
    package func answer(_ name: String, caching: String = "no-cache", missing: String, to request: LocalRequest) -> LocalResponse {
        guard let file = files[name] else { return Self.plain(404, missing) }
        let accepted = AcceptedCodings(request.fields.filter { $0.name.lowercased() == "accept-encoding" }.map(\.value))
        let isPacked = accepted.best(of: [.gzip]) == .gzip
        let tag = isPacked ? "\"\(file.tag)-gzip\"" : "\"\(file.tag)\""
        let isKnown = request.fields.contains { $0.name.lowercased() == "if-none-match" && Self.names(tag, in: $0.value) }
        let coding = isPacked && !isKnown ? [(name: "Content-Encoding", value: "gzip")] : []
        return LocalResponse(
            status: isKnown ? 304 : 200, contentType: file.type, body: isKnown ? [] : isPacked ? file.packed : file.body,
            fields: Self.securityFields + [("Cache-Control", caching), ("ETag", tag), ("Vary", "Accept-Encoding")] + coding)
    }

    /// An answer of one line, with the fields of the site.
    package static func plain(_ status: Int, _ text: String, _ fields: [(name: String, value: String)] = []) -> LocalResponse {
        LocalResponse(status: status, contentType: "text/plain; charset=utf-8", body: Array(text.utf8), fields: fields + securityFields)
    }

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

    /// FNV-1a; not cryptographic.
    private static func tag(of bytes: [UInt8]) -> String {
        var out = ByteBuffer(capacity: 16)
        out.append(hex: bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }, digits: 16)
        return out.readable.text
    }

    /// Only the site's own files and origin, no text that becomes markup or code, and no frame of another page.
    private static let securityFields: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
        ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()"),
    ]
}
