import Gate
import HTTP
import Telemetry
import Wire

/// Writes the head of the request that is forwarded (RFC 9110 §7.6).
///
/// Hop-by-hop fields, fields that the gateway injects, and fields that upstreams trust or route by (`ProxyFields`) are not copied;
/// forwarding fields are written anew. The output is unambiguous whatever the input was.
enum ForwardedRequest {
    /// Appends the head to `out`, which must be empty; returns its parts.
    ///
    /// - Parameters:
    ///   - isTraced: whether `traceparent` names a span that is recorded, of which each attempt has its own.
    ///   - sendsOwnHost: whether `Host` is the address's and not the client's.
    ///   - wantsPlainContent: the answer must not be coded, because the gateway writes into it.
    ///   - socketKey: the key of a WebSocket handshake whose client has sent none.
    ///   - filtered: changes for an answer that will be filtered.
    ///   - restoresTags: conditions name entity tags of compressed answers.
    ///   - cached: the fields of the client that may be passed on, where the answer may be stored.
    ///   - isForHTTP2: the fields are written as a block of HTTP/2, unless the request is of a rare kind.
    static func write(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, requestID: RawSpan,
        traceparent: RawSpan, isTraced: Bool = false, from peer: Peer, to address: UpstreamAddress, sendsOwnHost: Bool,
        wantsPlainContent: Bool = false,
        socketKey: RawSpan = RawSpan(), filtered: FilteredFields? = nil, restoresTags: Bool = false, cached: CachedFields? = nil,
        isForHTTP2: Bool = false, into out: inout ByteBuffer
    ) -> UpstreamHead {
        var parts = UpstreamHead()
        parts.prefix = writeRequestLine(head, bytes, decision, address.pathPrefix, &out)
        if sendsOwnHost || head.host.isEmpty {
            parts.host = out.appendSlice(address.authority)
        } else {
            out.append(bytes[head.host])
        }
        out.append("\r\n")
        if isForHTTP2, decision.handshake == nil, filtered == nil, cached == nil, !restoresTags, !wantsPlainContent {
            writeBlock(
                head, bytes, decision, requestID: requestID, traceparent: traceparent, isTraced: isTraced, from: peer, &parts, &out)
            return parts
        }
        // `Connection` is for an upstream that speaks HTTP/1.1 after all.
        if address.speaksHTTP2, hasTrailersAccepted(head, bytes) { out.append("TE: trailers\r\nConnection: TE\r\n") }
        copyFields(
            head, bytes, decision, wantsPlainContent: wantsPlainContent, filtered, restoresTags: restoresTags, cached, &out)
        if restoresTags, filtered == nil, cached == nil { writeTags(head.fields, bytes, decision, &out) }
        if cached != nil, filtered != nil {
            out.append(FilteredFields.form)
        } else if let filtered {
            filtered.writeRequest(head.fields, bytes, into: &out)
        } else if wantsPlainContent {
            out.append("Accept-Encoding: identity\r\n")
        }
        writeOwnFields(
            head, bytes, decision, requestID: requestID, traceparent: traceparent, isTraced: isTraced, from: peer,
            hidesClient: cached?.isShared == true, asBlock: false, &parts, &out)
        out.append("\r\n")
        out.append(decision.requestEdits.http1)
        if let handshake = decision.handshake {
            parts.offer = out.count
            handshake.write(head, bytes, key: socketKey, into: &out)
            parts.offer = out.count - parts.offer
            parts.length = out.count
            return parts
        }
        switch head.framing {
        case .none, .untilClose: break
        case .length(let count):
            out.append("Content-Length: ")
            out.append(decimal: count)
            out.append("\r\n")
        case .chunked: out.append("Transfer-Encoding: chunked\r\n")
        }
        out.append("\r\n")
        parts.length = out.count
        return parts
    }

    /// Returns the slice of the base path.
    private static func writeRequestLine(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, _ prefix: String,
        _ out: inout ByteBuffer
    ) -> Slice {
        out.append(bytes[head.methodText])
        out.append(UInt8(ascii: " "))
        let base = out.appendSlice(prefix)
        out.append(decision.pathIsVerbatim ? bytes[head.path] : decision.path)
        out.append(bytes[head.query])
        out.append(" HTTP/1.1\r\nHost: ")
        return base
    }

    private static func copyFields(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, wantsPlainContent: Bool,
        _ filtered: FilteredFields?, restoresTags: Bool, _ cached: CachedFields?, _ out: inout ByteBuffer
    ) {
        var run = FieldRun()
        for index in 0..<head.fields.count {
            let field = head.fields[index]
            let passes =
                field.isForwarded(decision.requestEdits, bytes) && passes(field, bytes, decision)
                && !(wantsPlainContent && field.known == .acceptEncoding)
                && !(restoresTags && (field.known == .ifNoneMatch || field.known == .ifMatch))
                && (filtered == nil || filtered!.passesRequest(field, bytes, method: head.method))
                && (cached == nil || cached!.passes(field, bytes))
            run.add(field, bytes, &out, if: passes)
        }
        run.flush(bytes, &out)
    }

    /// Writes the conditions with the entity tags that the upstream knows.
    private static func writeTags(
        _ fields: borrowing FieldTable, _ bytes: RawSpan, _ decision: borrowing Decision, _ out: inout ByteBuffer
    ) {
        for index in 0..<fields.count where fields[index].isForwarded(decision.requestEdits, bytes) {
            switch fields[index].known {
            case .ifNoneMatch: out.append("If-None-Match: ")
            case .ifMatch: out.append("If-Match: ")
            default: continue
            }
            ContentCoding.restoreTags(bytes[fields[index].value], into: &out)
            out.append("\r\n")
        }
    }

    /// Whether the client takes trailers. Not forwarded otherwise, but gRPC's servers demand it.
    static func hasTrailersAccepted(_ head: borrowing RequestHead, _ bytes: RawSpan) -> Bool {
        guard let index = head.fields.first(.te) else { return false }
        return bytes[head.fields[index].value].equalsIgnoringCase("trailers")
    }

    /// Whether the upstream gets this field as it came.
    static func passes(_ field: Field, _ bytes: RawSpan, _ decision: borrowing Decision) -> Bool {
        switch field.known {
        case .host, .contentLength, .expect: return false
        case .xForwardedFor, .xForwardedProto, .xForwardedHost, .forwarded, .xRequestID, .traceparent: return false
        case .xInternalKey, .xRefreshToken: return false
        case .other: return passesUnknown(field, bytes, decision)
        default: return true
        }
    }

    /// Whether the upstream gets a field that the gateway reads in gRPC calls and WebSocket handshakes alone, if at all.
    @inline(__always)
    private static func passesUnknown(_ field: Field, _ bytes: RawSpan, _ decision: borrowing Decision) -> Bool {
        if decision.grpcTimeout != nil, field.isGRPCTimeout(bytes) { return false }
        // Also without a handshake: the list of subprotocols may hold the token.
        if field.name.count >= 17, WebSocketHandshake.owns(bytes[field.name]) { return false }
        return !decision.removes(bytes[field.name])
    }

    /// Writes the fields that the gateway gives to every request: the time of a call, `X-Forwarded-…`, `X-Real-IP` and `Via` from the
    /// connection and from a trusted proxy's fields, and those of the trace. `asBlock`: as fields of HTTP/2; otherwise as lines, each name
    /// with the end of the line before it.
    @inline(__always)
    static func writeOwnFields(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, requestID: RawSpan, traceparent: RawSpan,
        isTraced: Bool, from peer: Peer, hidesClient: Bool, asBlock: Bool, _ parts: inout UpstreamHead, _ out: inout ByteBuffer
    ) {
        if !asBlock { out.truncate(to: out.count &- 2) }
        if let timeout = decision.grpcTimeout {
            out.append(asBlock ? "\0\u{C}grpc-timeout\u{9}" : "\r\ngrpc-timeout: " as StaticString)
            parts.timeout = out.appendTimeout(timeout)
        }
        if !head.host.isEmpty {
            out.append(asBlock ? "\0\u{10}x-forwarded-host" : "\r\nX-Forwarded-Host: " as StaticString)
            out.append(value: bytes[head.host], asBlock: asBlock)
        }
        if !hidesClient {
            out.append(asBlock ? "\0\u{F}x-forwarded-for" : "\r\nX-Forwarded-For: " as StaticString)
            var place = out.beginValue(asBlock: asBlock)
            if decision.client.peerIsTrusted { copyValues(.xForwardedFor, head.fields, bytes, &out) }
            peer.address.write(into: &out)
            let end = out.count
            out.endValue(place, asBlock: asBlock)
            out.append(asBlock ? "\0\u{9}x-real-ip" : "\r\nX-Real-IP: " as StaticString)
            let former = place
            place = out.beginValue(asBlock: asBlock)
            // A peer that is not trusted is the client.
            if decision.client.peerIsTrusted { decision.client.address.write(into: &out) } else { out.append(copyOf: former..<end) }
            out.endValue(place, asBlock: asBlock)
        }
        if peer.isTLS {
            out.append(asBlock ? "\0\u{11}x-forwarded-proto\u{5}https" : "\r\nX-Forwarded-Proto: https" as StaticString)
        } else {
            out.append(asBlock ? "\0\u{11}x-forwarded-proto\u{4}http" : "\r\nX-Forwarded-Proto: http" as StaticString)
        }
        // RFC 9110 §7.6.3: the version in which the request was received. In a block, 60 is the index of `via`.
        if head.isHTTP2, !hidesClient {
            out.append(asBlock ? "\u{F}\u{2D}\u{A}2 tollgate\0\u{C}x-request-id" : "\r\nVia: 2 tollgate\r\nX-Request-Id: " as StaticString)
        } else {
            out.append(
                asBlock ? "\u{F}\u{2D}\u{C}1.1 tollgate\0\u{C}x-request-id" : "\r\nVia: 1.1 tollgate\r\nX-Request-Id: " as StaticString)
        }
        out.append(value: requestID, asBlock: asBlock)
        out.append(asBlock ? "\0\u{B}traceparent" : "\r\ntraceparent: " as StaticString)
        out.append(value: traceparent, asBlock: asBlock)
        if isTraced { parts.span = Slice(start: out.count - traceparent.byteCount + TraceContext.spanOffset, count: 16) }
    }

    /// Every value of a field, each followed by a comma.
    static func copyValues(
        _ name: FieldName, _ fields: borrowing FieldTable, _ bytes: RawSpan, _ out: inout ByteBuffer
    ) {
        for index in 0..<fields.count where fields[index].known == name && !fields[index].value.isEmpty {
            out.append(bytes[fields[index].value])
            out.append(", ")
        }
    }
}

extension Field {
    /// Whether the field may be forwarded: it is not hop-by-hop (RFC 9110 §7.6.1), and the gateway does not remove it.
    func isForwarded(_ edits: borrowing FieldEdits, _ bytes: RawSpan) -> Bool {
        !endsHere && !edits.removes(known) && !(edits.removesByName && edits.removes(known, bytes[name]))
    }
}

extension ByteBuffer {
    /// Begins the value of a field, whose bytes are appended next; returns its place.
    @inline(__always)
    fileprivate mutating func beginValue(asBlock: Bool) -> Int { asBlock ? beginHPACKString() : count }

    @inline(__always)
    fileprivate mutating func endValue(_ place: Int, asBlock: Bool) {
        if asBlock { endHPACKString(place) }
    }

    @inline(__always)
    fileprivate mutating func append(value: RawSpan, asBlock: Bool) {
        if asBlock { appendHPACKString(value) } else { append(value) }
    }

    /// Appends the value of `grpc-timeout`; returns its slice.
    mutating func appendTimeout(_ timeout: GRPCTimeout) -> Slice {
        let value = appendSlice("00000000n")
        timeout.write(over: Int(value.start), of: &self)
        return value
    }
}

/// Copies adjacent fields in one piece: most heads have one or two runs of lines that pass unchanged.
struct FieldRun {
    private var start = 0
    private var end = 0

    /// Adds the field's line, if it `passes`: to the run if it follows it directly and in plain form, else on its own.
    mutating func add(_ field: Field, _ bytes: RawSpan, _ out: inout ByteBuffer, if passes: Bool) {
        guard passes else { return flush(bytes, &out) }
        let isPlain =
            Int(field.value.start) == field.name.end + 2 && bytes[field.name.end + 1] == UInt8(ascii: " ")
            && bytes[field.value.end] == UInt8(ascii: "\r")
        if isPlain && Int(field.name.start) == end {
            end = field.value.end + 2
            return
        }
        flush(bytes, &out)
        if isPlain {
            start = Int(field.name.start)
            end = field.value.end + 2
        } else {
            out.append(bytes[field.name])
            out.append(": ")
            out.append(bytes[field.value])
            out.append("\r\n")
        }
    }

    mutating func flush(_ bytes: RawSpan, _ out: inout ByteBuffer) {
        if end > start { out.append(bytes.extracting(start..<end)) }
        start = 0
        end = 0
    }
}
