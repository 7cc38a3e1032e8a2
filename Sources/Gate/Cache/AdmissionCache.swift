package import HTTP
package import Wire

/// How far a decided request is of concern to the cache.
package struct CacheScope: Equatable, Sendable {
    /// Whether other callers may get the answer.
    package let isShared: Bool
    /// Bytes of the decision's `requestEdits` that tell the upstream of the caller: all but the signed identity.
    package internal(set) var told = 0
}

/// Requests whose answers may be stored.
extension Admission {
    /// Whether any route is cached.
    package var hasCache: Bool { policy.hasCache }

    /// Notes that the answer may come from the cache, or go into it. A path that is not canonical is asked of the upstream: the paths of
    /// entries are those that operators purge by.
    func enterCache(_ gate: RouteGate, _ head: borrowing RequestHead, _ decision: inout Decision) {
        guard gate.isCached, head.method == .get || head.method == .head, head.framing == .none, decision.handshake == nil,
            decision.check == nil, decision.dialect != .grpc, decision.grpcTimeout == nil, decision.sentPathIsCanonical
        else { return }
        // Without its user in the key, an answer is not the user's own.
        let isShared = gate.cacheSharing != .user || decision.identity == nil || decision.userID.byteCount == 0
        decision.cache = CacheScope(isShared: isShared)
        decision.forwardsAuthorization = false
    }

    package func cacheRule(_ decision: borrowing Decision) -> CacheRule { policy.rules[decision.routeIndex].cache }

    /// The fields of the client that the upstream gets.
    package func cachedFields(_ decision: borrowing Decision) -> CachedFields? {
        guard let scope = decision.cache else { return nil }
        return CachedFields(
            isShared: scope.isShared, isFiltered: filter(decision).map { !$0.isShadow } ?? false, vary: cacheRule(decision).vary)
    }

    /// Writes the cache key into `out`: first the target, then the other parts of the request that the upstream gets. Returns the target's
    /// length.
    package func writeCacheKey(
        _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: borrowing Decision, upstream: Int, isTLS: Bool, generation: Int,
        into out: inout ByteBuffer
    ) -> Int {
        out.removeAll()
        // The route's own upstream: a change that one side of a split made is one for both.
        if case .upstream(let number) = policy.gates[decision.routeIndex].target { out.append(lowBytes: UInt64(number), count: 8) }
        out.appendPart(bytes[head.host])
        out.appendPart(decision.pathIsVerbatim ? bytes[head.path] : decision.path)
        out.appendPart(bytes[head.query])
        let target = out.count
        guard let scope = decision.cache else { return target }
        out.append(lowBytes: UInt64(upstream), count: 8)
        out.append(lowBytes: UInt64(generation), count: 8)
        out.append(lowBytes: UInt64(decision.routeIndex), count: 8)
        out.append(lowBytes: (isTLS ? 1 : 0) | (scope.isShared ? 2 : 0), count: 8)
        out.appendPart(decision.requestEdits.http1.extracting(0..<scope.told))
        if policy.gates[decision.routeIndex].signsIdentity {
            out.append(lowBytes: UInt64(bitPattern: decision.identity?.signedInAt ?? -1), count: 8)
        }
        let rule = cacheRule(decision)
        for name in rule.vary {
            let start = out.count
            out.append(lowBytes: 0, count: 8)
            // The upstream gets none that ends here, as one that `Connection` names.
            for index in 0..<head.fields.count
            where !head.fields[index].endsHere && name.withRawBytes({ bytes[head.fields[index].name].equalsIgnoringCase($0) }) {
                out.appendPart(bytes[head.fields[index].value])
            }
            // Their number of bytes stands in front, so that no two lists look alike.
            let count = UInt64(out.count - start)
            for offset in 0..<8 { out.set(UInt8(truncatingIfNeeded: count >> UInt64(offset * 8)), at: start + offset) }
        }
        return target
    }

    package func cacheHash(_ key: RawSpan) -> LimitKey { hash.hash128(key, domain: 0x6361_6368_65) }
    package func cacheTarget(_ target: RawSpan) -> UInt64 { hash.hash64(target) }
}

extension ByteBuffer {
    /// Appends bytes behind their number.
    fileprivate mutating func appendPart(_ part: RawSpan) {
        append(lowBytes: UInt64(part.byteCount), count: 8)
        append(part)
    }
}
