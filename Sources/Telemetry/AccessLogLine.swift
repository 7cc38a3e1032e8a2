package import Wire

/// Fields of the access log. A closed list, which also bounds what is logged of a request: no token, password, code or
/// email, and of the query only whether there was one.
package enum AccessField: Sendable {
    case requestID, method, host, route, proto, upstream, authOutcome, authReason, issuer, kid, alg
    case userID, sessionID, tier, tierSource, cache, limitPolicy, limitOutcome, limitSource, limitKeys, limitLine, refresh, dialect,
        userAgent, tlsVersion
    case instance, error, code, upstreamAddress
    case stream, streamEvent, streamEnd
    case status, upstreamStatus, attempts, tokenAgeSeconds, limitRemaining, limitAt, bytesIn, bytesOut, connectionID
    case filterKept, filterDropped, filterUnlabelled
    case cacheResult
    case forwardAuth
    case configVersion
    case clientIP, peerIP
    case duration, overhead, upstreamDuration

    package var name: StaticString {
        switch self {
        case .requestID: "request_id"
        case .method: "method"
        case .host: "host"
        case .route: "route"
        case .proto: "proto"
        case .upstream: "upstream"
        case .authOutcome: "auth_outcome"
        case .authReason: "auth_reason"
        case .issuer: "issuer"
        case .kid: "kid"
        case .alg: "alg"
        case .userID: "user_id"
        case .sessionID: "session_id"
        case .tier: "tier"
        case .tierSource: "tier_source"
        case .cache: "cache"
        case .limitPolicy: "limit_policy"
        case .limitOutcome: "limit_outcome"
        case .limitSource: "limit_source"
        case .limitKeys: "limit_keys"
        case .limitLine: "limit_line"
        case .refresh: "refresh"
        case .dialect: "dialect"
        case .userAgent: "user_agent"
        case .tlsVersion: "tls_version"
        case .instance: "instance"
        case .error: "error"
        case .code: "code"
        case .upstreamAddress: "upstream_addr"
        case .stream: "stream"
        case .streamEvent: "stream_event"
        case .streamEnd: "stream_end"
        case .status: "status"
        case .upstreamStatus: "upstream_status"
        case .attempts: "attempts"
        case .tokenAgeSeconds: "token_age_s"
        case .limitRemaining: "limit_remaining"
        case .limitAt: "limit_at"
        case .bytesIn: "bytes_in"
        case .bytesOut: "bytes_out"
        case .connectionID: "conn_id"
        case .filterKept: "filter_kept"
        case .filterDropped: "filter_dropped"
        case .filterUnlabelled: "filter_unlabelled"
        case .cacheResult: "cache_result"
        case .forwardAuth: "forward_auth"
        case .configVersion: "config_version"
        case .clientIP: "client_ip"
        case .peerIP: "peer_ip"
        case .duration: "duration_ms"
        case .overhead: "overhead_ms"
        case .upstreamDuration: "upstream_ms"
        }
    }
}

/// Builder of a request's access log line. It may be built in two parts: what the decision knows while the request's bytes
/// exist, kept by the caller, and the rest at the end of the answer.
///
///     log.begin(at: request.arrived, into: &part)
///     log.add(.host, bytes[head.host], to: &part)
///     …later: out.append(part.readable)
///     log.add(.status, 200, to: &out)
///     log.end(into: &out)
package struct AccessLogLine: Sendable {
    private let line: LogLine

    package init(_ format: LogFormat) { line = LogLine(format) }

    /// Longer values are truncated, in bytes, which bounds a line whatever a peer sends.
    package static let maxValue = 1_024

    /// `now` is the request's arrival.
    package func begin(at now: WallTime, into out: inout ByteBuffer) {
        line.begin(.info, "access", at: now, into: &out)
    }

    package func end(into out: inout ByteBuffer) { line.end(into: &out) }

    /// Adds the field, unless `value` is empty.
    package func add(_ field: AccessField, _ value: RawSpan, to out: inout ByteBuffer) {
        guard value.byteCount > 0 else { return }
        line.add(field.name, value.extracting(0..<min(value.byteCount, Self.maxValue)), to: &out)
    }

    package func add(_ field: AccessField, _ value: StaticString, to out: inout ByteBuffer) {
        add(field, value.rawBytes, to: &out)
    }

    @_disfavoredOverload
    package func add(_ field: AccessField, _ value: String, to out: inout ByteBuffer) {
        value.withRawBytes { add(field, $0, to: &out) }
    }

    package func add(_ field: AccessField, _ value: Int, to out: inout ByteBuffer) {
        line.add(field.name, value, to: &out)
    }

    package func add(_ field: AccessField, _ value: UInt64, to out: inout ByteBuffer) {
        line.add(field.name, value, to: &out)
    }

    package func add(_ field: AccessField, _ value: IPAddress, to out: inout ByteBuffer) {
        line.add(field.name, value, to: &out)
    }

    package func add(_ field: AccessField, micros: UInt64, to out: inout ByteBuffer) {
        line.add(field.name, milliseconds: micros, to: &out)
    }

    package func add(_ trace: TraceContext, to out: inout ByteBuffer) { line.add(trace, to: &out) }

    /// Adds the path, and of the query only whether there was one, because queries carry codes and tokens.
    package func addPath(_ path: RawSpan, hasQuery: Bool, to out: inout ByteBuffer) {
        let shown = path.extracting(0..<min(path.byteCount, Self.maxValue))
        guard hasQuery else { return line.add("path", shown, to: &out) }
        line.add("path", shown, suffix: "?[redacted]", to: &out)
    }
}
