package import HTTP
package import Wire

/// Why a check does not describe one request.
package enum DescriptionFault: Error, CaseIterable, Sendable {
    case noMethod
    case noURI
    /// Routes name hosts, and the description names none.
    case noHost
    case badMethod
    case badURI
    case badScheme
    /// Two fields, or a field and the request line, describe different requests.
    case contradiction
    /// The request has a field whose name servers read as an identity field's, like `X_User_Id`, or on a route for API keys as
    /// `X-Api-Key`. The proxy would pass it on.
    case lookAlike
    /// The request has one of `ProxyFields` that its route does not keep. The proxy would pass it on.
    case proxyField

    /// The access log's `error`.
    package var text: StaticString { row.text }
    package var message: StaticString { row.message }

    private var row: (text: StaticString, message: StaticString) {
        switch self {
        case .noMethod: ("check_no_method", "The check names no method: send X-Forwarded-Method or X-Original-Method.")
        case .noURI: ("check_no_uri", "The check names no URI: send X-Forwarded-Uri or X-Original-URL.")
        case .noHost: ("check_no_host", "The check names no host, and routes do: send X-Forwarded-Host or an absolute X-Original-URL.")
        case .badMethod: ("check_bad_method", "The method that the check names is malformed.")
        case .badURI: ("check_bad_uri", "The URI that the check names is neither a path nor, in X-Original-URL, an http or https URL.")
        case .badScheme: ("check_bad_scheme", "X-Forwarded-Proto is neither http nor https.")
        case .contradiction: ("check_contradiction", "The check describes two different requests.")
        case .lookAlike: ("check_look_alike", "The request has a field that an upstream may read as an identity field or an API key.")
        case .proxyField:
            (
                "check_proxy_field",
                "The request has a field that can override the path, method, user or address for an upstream, and the route does not list it in keep=."
            )
        }
    }
}

/// The request that a proxy describes to a check endpoint: by `X-Forwarded-Method`, `-Proto`, `-Host` and `-Uri`, by
/// `X-Original-Method` and `X-Original-URL`, or by the request line. What several of them name must be equal, because only the
/// proxy knows which of them came from its client.
package struct DescribedRequest {
    private var method: Slice?
    /// Path and query.
    private var uri: Slice?
    private var host: Slice?
    private var isSecure: Bool?
    private var isHandshake = false

    private init() {}

    /// Writes the described request as a head of HTTP/1.1, to be parsed and judged like one from a client: the description becomes
    /// the request line, `Host` and `X-Forwarded-Proto`, the other fields stay. Framing and hop-by-hop fields are left out: they are
    /// those of the check, or announce content that does not come. A handshake of a WebSocket gets back the `Upgrade` that
    /// proxies remove.
    ///
    /// - Parameters:
    ///   - hostMayBeMissing: no route names a host; then the check's own stands in for one that is not described.
    ///   - out: is appended to; its content is undefined after a fault.
    package static func write(
        _ head: borrowing RequestHead, _ bytes: RawSpan, at endpoint: CheckEndpoint, hostMayBeMissing: Bool,
        into out: inout ByteBuffer
    ) throws(DescriptionFault) {
        var request = DescribedRequest()
        if endpoint == .envoy { request.describe(byTargetOf: head) }
        for index in 0..<head.fields.count { try request.read(head.fields[index], bytes) }
        if WebSocketHandshake.isAsked(by: head, bytes) { request.isHandshake = true }
        guard let method = request.method else { throw .noMethod }
        guard let uri = request.uri else { throw .noURI }
        guard bytes[method].isToken else { throw .badMethod }
        guard bytes[uri].hasPrefix("/"), bytes[uri].firstIndex(of: UInt8(ascii: " ")) == nil else { throw .badURI }
        guard request.host != nil || hostMayBeMissing else { throw .noHost }
        out.append(bytes[method])
        out.append(" ")
        out.append(bytes[uri])
        out.append(" HTTP/1.1\r\nHost: ")
        out.append(bytes[request.host ?? head.host])
        out.append(request.isSecure == true ? "\r\nX-Forwarded-Proto: https\r\n" : "\r\nX-Forwarded-Proto: http\r\n")
        for index in 0..<head.fields.count where head.fields[index].isOfDescribedRequest(bytes) {
            out.append(bytes[head.fields[index].name])
            out.append(": ")
            out.append(bytes[head.fields[index].value])
            out.append("\r\n")
        }
        if request.isHandshake { out.append("Connection: Upgrade\r\nUpgrade: websocket\r\n") }
        out.append("\r\n")
    }

    /// Takes method, host and the target behind the prefix from the request line.
    private mutating func describe(byTargetOf head: borrowing RequestHead) {
        method = head.methodText
        host = head.host.isEmpty ? nil : head.host
        let start = Int(head.path.start) + CheckEndpoint.envoyPrefix.utf8CodeUnitCount
        uri = Slice(start: start, count: head.path.end + Int(head.query.count) - start)
    }

    private mutating func read(_ field: Field, _ bytes: RawSpan) throws(DescriptionFault) {
        let value = field.value
        switch field.known {
        case .xForwardedHost: try add(value, to: &host, bytes)
        case .xForwardedProto: if !value.isEmpty { try add(scheme: bytes[value]) }
        case .other:
            let name = bytes[field.name]
            switch DescriptionField(name) {
            case .method: try add(value, to: &method, bytes)
            case .uri: try add(value, to: &uri, bytes)
            case .url: try add(url: value, bytes)
            case .handshake: isHandshake = true
            case nil: if IdentityHeaders.isLookAlike(name) { throw .lookAlike }
            }
        // Fields of the request itself, which the description copies.
        default: break
        }
    }

    /// An empty field describes nothing: proxies send one in place of none.
    private func add(_ value: Slice, to part: inout Slice?, _ bytes: RawSpan) throws(DescriptionFault) {
        guard !value.isEmpty else { return }
        if let part, !bytes[part].equals(bytes[value]) { throw .contradiction }
        part = value
    }

    private mutating func add(scheme: RawSpan) throws(DescriptionFault) {
        let isSecure = scheme.equalsIgnoringCase("https") || scheme.equalsIgnoringCase("wss")
        guard isSecure || scheme.equalsIgnoringCase("http") || scheme.equalsIgnoringCase("ws") else { throw .badScheme }
        if let known = self.isSecure, known != isSecure { throw .contradiction }
        self.isSecure = isSecure
    }

    /// Takes apart `X-Original-URL`: an absolute URL, or a path.
    private mutating func add(url: Slice, _ bytes: RawSpan) throws(DescriptionFault) {
        let text = bytes[url]
        guard let first = text.firstIndex(of: UInt8(ascii: "/")), first > 0 else { return try add(url, to: &uri, bytes) }
        guard first + 1 < text.byteCount, text[first + 1] == UInt8(ascii: "/"), text[first - 1] == UInt8(ascii: ":"),
            let end = text.firstIndex(of: UInt8(ascii: "/"), from: first + 2)
        else { throw .badURI }
        let scheme = text.extracting(0..<first - 1)
        guard scheme.equalsIgnoringCase("http") || scheme.equalsIgnoringCase("https") else { throw .badURI }
        try add(scheme: scheme)
        let start = Int(url.start)
        guard end > first + 2 else { throw .badURI }
        try add(Slice(start: start + first + 2, count: end - first - 2), to: &host, bytes)
        try add(Slice(start: start + end, count: text.byteCount - end), to: &uri, bytes)
    }
}

/// Fields that describe a request, beside the known ones.
private enum DescriptionField {
    case method, uri, url
    /// `Sec-WebSocket-Key`: the request is the handshake of a WebSocket.
    case handshake

    init?(_ name: RawSpan) {
        switch name.byteCount {
        case 14 where name.equalsIgnoringCase("x-original-url"): self = .url
        case 15 where name.equalsIgnoringCase("x-forwarded-uri"): self = .uri
        case 17 where name.equalsIgnoringCase("x-original-method"): self = .method
        case 17 where name.equalsIgnoringCase("sec-websocket-key"): self = .handshake
        case 18 where name.equalsIgnoringCase("x-forwarded-method"): self = .method
        default: return nil
        }
    }
}

extension Field {
    /// Whether the described request has the field, too.
    fileprivate func isOfDescribedRequest(_ bytes: RawSpan) -> Bool {
        switch known {
        case .host, .contentLength, .trailer, .expect, .xForwardedHost, .xForwardedProto: false
        case .other:
            switch DescriptionField(bytes[name]) {
            case .method, .uri, .url: false
            case .handshake, nil: true
            }
        default: !known.isHopByHop
        }
    }
}

extension RawSpan {
    fileprivate var isToken: Bool {
        for offset in 0..<byteCount where !MethodSet.isTokenByte(self[offset]) { return false }
        return byteCount > 0
    }
}
