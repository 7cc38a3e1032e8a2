package import Wire

/// The attributes that spans have. Names are those of OpenTelemetry's semantic conventions for HTTP (stable) and databases, and
/// `tollgate.*` for the rest. A closed list, which also bounds what leaves the process: no token, no field of a body, and of a query
/// only whether there was one.
package enum SpanAttribute: UInt8, CaseIterable, Sendable {
    case method, methodOriginal, path, query, scheme, fullURL, route, status, errorType
    case serverAddress, serverPort, clientAddress, peerAddress, peerPort, transport, protocolVersion, userAgent
    case resendCount, requestBodySize, responseBodySize
    case database, operation, procedure
    case requestID, routeName, upstream, authOutcome, tier, code, forwardAuth
    case limitPolicy, limitOutcome, limitSource
    case refreshOutcome, refreshRole

    package var name: StaticString {
        switch self {
        case .method: "http.request.method"
        case .methodOriginal: "http.request.method_original"
        case .path: "url.path"
        case .query: "url.query"
        case .scheme: "url.scheme"
        case .fullURL: "url.full"
        case .route: "http.route"
        case .status: "http.response.status_code"
        case .errorType: "error.type"
        case .serverAddress: "server.address"
        case .serverPort: "server.port"
        case .clientAddress: "client.address"
        case .peerAddress: "network.peer.address"
        case .peerPort: "network.peer.port"
        case .transport: "network.transport"
        case .protocolVersion: "network.protocol.version"
        case .userAgent: "user_agent.original"
        case .resendCount: "http.request.resend_count"
        case .requestBodySize: "http.request.body.size"
        case .responseBodySize: "http.response.body.size"
        case .database: "db.system.name"
        case .operation: "db.operation.name"
        case .procedure: "db.stored_procedure.name"
        case .requestID: "tollgate.request_id"
        case .routeName: "tollgate.route"
        case .upstream: "tollgate.upstream"
        case .authOutcome: "tollgate.auth.outcome"
        case .tier: "tollgate.tier"
        case .code: "tollgate.code"
        case .forwardAuth: "tollgate.forward_auth"
        case .limitPolicy: "tollgate.limit.policy"
        case .limitOutcome: "tollgate.limit.outcome"
        case .limitSource: "tollgate.limit.source"
        case .refreshOutcome: "tollgate.refresh.outcome"
        case .refreshRole: "tollgate.refresh.role"
        }
    }

    /// Whether its value is a number, which takes eight bytes; that of the others is text.
    var isNumber: Bool {
        switch self {
        case .status, .serverPort, .peerPort, .resendCount, .requestBodySize, .responseBodySize: true
        case .method, .methodOriginal, .path, .query, .scheme, .fullURL, .route, .errorType, .serverAddress, .clientAddress, .peerAddress,
            .transport, .protocolVersion, .userAgent, .database, .operation, .procedure, .requestID, .routeName, .upstream, .authOutcome,
            .tier, .code, .forwardAuth, .limitPolicy, .limitOutcome, .limitSource, .refreshOutcome, .refreshRole:
            false
        }
    }
}

/// A span's attributes while it is under way, in a compact binary form: the number of the attribute, then eight bytes of a number, or
/// two bytes of length and a text. Reused, so a request in the steady state allocates nothing.
package struct SpanAttributes: ~Copyable {
    private var bytes: ByteBuffer

    package init() { bytes = ByteBuffer() }

    /// Longer texts are truncated, in bytes, which bounds a span whatever a peer sends.
    package static let maxText = 512

    package var encoded: RawSpan { @_lifetime(borrow self) get { bytes.readable } }

    package mutating func removeAll() { bytes.removeAll() }

    package mutating func add(_ key: SpanAttribute, _ value: Int) {
        assert(key.isNumber)
        bytes.append(key.rawValue)
        bytes.append(lowBytes: UInt64(bitPattern: Int64(value)), count: 8)
    }

    /// Adds the text that `write` appends, unless it is empty.
    package mutating func add(_ key: SpanAttribute, _ write: (inout ByteBuffer) -> Void) {
        assert(!key.isNumber)
        let start = bytes.count
        bytes.append(key.rawValue)
        bytes.append(lowBytes: 0, count: 2)
        write(&bytes)
        let count = min(bytes.count - start - 3, Self.maxText)
        guard count > 0 else { return bytes.truncate(to: start) }
        bytes.truncate(to: start + 3 + count)
        bytes.set(UInt8(truncatingIfNeeded: count), at: start + 1)
        bytes.set(UInt8(truncatingIfNeeded: count >> 8), at: start + 2)
    }

    package mutating func add(_ key: SpanAttribute, _ text: RawSpan) {
        // A long text is not copied whole to be truncated.
        let shown = text.extracting(0..<min(text.byteCount, Self.maxText))
        add(key) { $0.append(shown) }
    }

    package mutating func add(_ key: SpanAttribute, _ text: StaticString) { add(key, text.rawBytes) }

    @_disfavoredOverload
    package mutating func add(_ key: SpanAttribute, _ text: String) { add(key) { $0.append(text) } }

    package mutating func add(_ key: SpanAttribute, _ address: IPAddress) { add(key) { address.write(into: &$0) } }
}

/// The reader of attributes that `SpanAttributes` has encoded.
struct SpanAttributeWalk: ~Copyable, ~Escapable {
    private let bytes: RawSpan
    private var offset = 0

    @_lifetime(copy bytes)
    init(_ bytes: RawSpan) { self.bytes = bytes }

    /// The next attribute; nil at the end. A number's range is empty, and a text's number 0.
    mutating func next() -> (key: SpanAttribute, number: Int64, text: Range<Int>)? {
        guard offset < bytes.byteCount, let key = SpanAttribute(rawValue: bytes[offset]) else { return nil }
        if key.isNumber {
            var number: UInt64 = 0
            for place in 0..<8 { number |= UInt64(bytes[offset + 1 + place]) << UInt64(8 * place) }
            offset += 9
            return (key, Int64(bitPattern: number), 0..<0)
        }
        let count = Int(bytes[offset + 1]) | Int(bytes[offset + 2]) << 8
        let text = offset + 3..<offset + 3 + count
        offset = text.upperBound
        return (key, 0, text)
    }
}
