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
        if let timeout = decision.grpcTimeout {
            out.append("grpc-timeout: ")
            parts.timeout = out.appendTimeout(timeout)
            out.append("\r\n")
        }
        writeForwarding(head, bytes, decision, from: peer, hidesClient: cached?.isShared == true, &out)
        out.append(requestID)
        out.append("\r\ntraceparent: ")
        if isTraced { parts.span = Slice(start: out.count + TraceContext.spanOffset, count: 16) }
        out.append(traceparent)
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

    /// Writes `X-Forwarded-…`, `X-Real-IP` and `Via` from the connection, and from a trusted proxy's fields. Ends with the name of
    /// the next field, so that constant text is one piece.
    private static func writeForwarding(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, from peer: Peer, hidesClient: Bool,
        _ out: inout ByteBuffer
    ) {
        if hidesClient {
            if !head.host.isEmpty {
                out.append("X-Forwarded-Host: ")
                out.append(bytes[head.host])
                out.append("\r\n")
            }
            return out.append(
                peer.isTLS
                    ? "X-Forwarded-Proto: https\r\nVia: 1.1 tollgate\r\nX-Request-Id: "
                    : "X-Forwarded-Proto: http\r\nVia: 1.1 tollgate\r\nX-Request-Id: " as StaticString)
        }
        if !head.host.isEmpty {
            out.append("X-Forwarded-Host: ")
            out.append(bytes[head.host])
            out.append("\r\nX-Forwarded-For: ")
        } else {
            out.append("X-Forwarded-For: ")
        }
        if decision.client.peerIsTrusted { copyValues(.xForwardedFor, head.fields, bytes, &out) }
        let start = out.count
        peer.address.write(into: &out)
        let end = out.count
        out.append("\r\nX-Real-IP: ")
        if decision.client.address == peer.address {
            out.append(copyOf: start..<end)
        } else {
            decision.client.address.write(into: &out)
        }
        // RFC 9110 §7.6.3: the version in which the request was received.
        switch (peer.isTLS, head.isHTTP2) {
        case (true, true): out.append("\r\nX-Forwarded-Proto: https\r\nVia: 2 tollgate\r\nX-Request-Id: ")
        case (true, false): out.append("\r\nX-Forwarded-Proto: https\r\nVia: 1.1 tollgate\r\nX-Request-Id: ")
        case (false, true): out.append("\r\nX-Forwarded-Proto: http\r\nVia: 2 tollgate\r\nX-Request-Id: ")
        case (false, false): out.append("\r\nX-Forwarded-Proto: http\r\nVia: 1.1 tollgate\r\nX-Request-Id: ")
        }
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
