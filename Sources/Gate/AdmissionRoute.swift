import HTTP
import Wire

extension Admission {
    /// Finds the route of the canonical path, and sets the decision's path for the upstream. nil if the request is refused.
    func findRoute(_ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision) -> Int? {
        let path = bytes[head.path]
        let match: RouteMatch
        let traits: PathTraits
        switch head.form.isAsterisk
            ? .same([]) : CanonicalPath.canonicalise(path, into: &decision.pathBytes, encodedSlash: .pass)
        {
        case .same(let found):
            traits = found
            decision.sentPathIsCanonical = true
            match = policy.table.match(
                host: bytes[head.host], path: path, method: head.method, methodText: bytes[head.methodText])
        case .rewritten(let found):
            traits = found
            decision.pathIsVerbatim = false
            match = policy.table.match(
                host: bytes[head.host], path: decision.path, method: head.method, methodText: bytes[head.methodText])
        case .refused(let fault):
            decision.refuse(.badRequest(.path(fault)))
            return nil
        }
        decision.corsNumber = policy.corsNumber(of: match)
        let hasEncodedSlash = traits.contains(.encodedSlash)
        guard case .route(let route) = match, !hasEncodedSlash || policy.gates[route].encodedSlashPasses else {
            refuseUnrouted(match, hasEncodedSlash, path, &decision)
            return nil
        }
        if hidesAnotherRoute(match, traits, head, bytes, &decision) {
            decision.use(policy.gates[route].dialect)
            decision.refuse(.badRequest(.path(.hiddenRoute)))
            return nil
        }
        if policy.gates[route].mayHideStricterRoute, hidesStricterRoute(route, path, head, bytes, &decision) {
            decision.use(policy.gates[route].dialect)
            decision.refuse(.badRequest(.path(.hiddenStricterRoute)))
            return nil
        }
        if decision.check != nil, hasProxyField(head, bytes, kept: policy.gates[route].keptFields, client: decision.client.address) {
            decision.use(policy.gates[route].dialect)
            decision.refuse(.badRequest(.description(.proxyField)))
            return nil
        }
        if decision.check != nil, !decision.pathIsVerbatim, differsAsSent(path, match, head, bytes) {
            decision.use(policy.gates[route].dialect)
            decision.refuse(.badRequest(.path(.notCanonical)))
            return nil
        }
        let strip = policy.gates[route].strip
        if !strip.isEmpty {
            let texts = policy.texts
            removePrefix(texts.rawBytes[strip], path, &decision)
        }
        return route
    }

    /// Other ways in which an upstream may parse a path that is forwarded as it is.
    private enum Reading: CaseIterable {
        case withoutParameters, upToParameters, withSlashes

        /// The part of a path that makes this parse differ from the gateway's.
        var trait: PathTraits {
            switch self {
            case .withoutParameters, .upToParameters: .parameters
            case .withSlashes: .encodedSlash
            }
        }

        func append(_ path: RawSpan, to out: inout ByteBuffer) {
            switch self {
            case .withoutParameters: CanonicalPath.appendWithoutParameters(path, to: &out)
            case .upToParameters: CanonicalPath.appendUpToParameters(path, to: &out)
            case .withSlashes: CanonicalPath.appendWithSlashes(path, to: &out)
            }
        }
    }

    /// Whether another parse of the path belongs to another rule than `match`: the upstream would then serve what the other
    /// rule protects.
    private func hidesAnotherRoute(
        _ match: RouteMatch, _ traits: PathTraits, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> Bool {
        guard !traits.isDisjoint(with: [.parameters, .encodedSlash]) else { return false }
        // Taken out of the decision while the decision's path is read.
        var path = ByteBuffer()
        swap(&path, &decision.bareBytes)
        defer { swap(&path, &decision.bareBytes) }
        for reading in Reading.allCases where traits.contains(reading.trait) {
            path.removeAll()
            if decision.pathIsVerbatim {
                reading.append(bytes[head.path], to: &path)
            } else {
                reading.append(decision.path, to: &path)
            }
            if belongsElsewhere(path.readable, than: match, head, bytes) { return true }
            // A server that decodes slashes may cut parameters before or after that.
            for next in Reading.allCases where next.trait != reading.trait && traits.contains(next.trait) {
                var both = ByteBuffer(capacity: path.count)
                next.append(path.readable, to: &both)
                if belongsElsewhere(both.readable, than: match, head, bytes) { return true }
            }
        }
        return false
    }

    /// Whether the path without case, last slash and blanks at its end belongs to a stricter rule than `route`.
    private func hidesStricterRoute(
        _ route: Int, _ sent: RawSpan, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> Bool {
        if decision.pathIsVerbatim { return hidesStricterRoute(route, sent, head, bytes, &decision.bareBytes) }
        // Taken out of the decision while the decision's path is read.
        var room = ByteBuffer()
        swap(&room, &decision.bareBytes)
        defer { swap(&room, &decision.bareBytes) }
        return hidesStricterRoute(route, decision.path, head, bytes, &room)
    }

    private func hidesStricterRoute(
        _ route: Int, _ path: RawSpan, _ head: borrowing RequestHead, _ bytes: RawSpan, _ room: inout ByteBuffer
    ) -> Bool {
        guard policy.foldsEveryPath || CanonicalPath.needsFolding(path), let folded = policy.foldedRoutes else { return false }
        let hidden = folded.stricter(
            than: route, host: bytes[head.host], path: path, method: head.method, methodText: bytes[head.methodText], &room)
        if hidden != nil { return true }
        // An upstream may heed the end of a path and not its case.
        room.removeAll()
        CanonicalPath.appendFolded(path, keepsEnd: true, to: &room)
        guard
            case .route(let other) = policy.table.match(
                host: bytes[head.host], path: room.readable, method: head.method, methodText: bytes[head.methodText]),
            !policy.gates[other].target.isLocal
        else { return false }
        return folded.isStricter(other, than: route)
    }

    /// Whether the canonical form of `path` matches another rule than `match`, does not exist, or hides a stricter rule.
    private func belongsElsewhere(
        _ path: RawSpan, than match: RouteMatch, _ head: borrowing RequestHead, _ bytes: RawSpan
    ) -> Bool {
        var canonical = ByteBuffer()
        let other: RouteMatch
        switch CanonicalPath.canonicalise(path, into: &canonical, encodedSlash: .pass) {
        case .same:
            other = policy.table.match(
                host: bytes[head.host], path: path, method: head.method, methodText: bytes[head.methodText])
        case .rewritten:
            other = policy.table.match(
                host: bytes[head.host], path: canonical.readable, method: head.method, methodText: bytes[head.methodText])
        case .refused: return true
        }
        switch other {
        case .route, .methodNotAllowed: if other != match { return true }
        case .none: break
        }
        guard case .route(let route) = match, policy.gates[route].mayHideStricterRoute else { return false }
        var folded = ByteBuffer()
        if canonical.isEmpty { return hidesStricterRoute(route, path, head, bytes, &folded) }
        return hidesStricterRoute(route, canonical.readable, head, bytes, &folded)
    }

    private func refuseUnrouted(_ match: RouteMatch, _ hasEncodedSlash: Bool, _ sent: RawSpan, _ decision: inout Decision) {
        if hasEncodedSlash {
            if case .route(let route) = match { decision.use(policy.gates[route].dialect) }
            return decision.refuse(.badRequest(.path(.encodedSlash)))
        }
        switch match {
        case .methodNotAllowed(let allowed, let route):
            decision.use(policy.gates[route].dialect)
            decision.refuse(.methodNotAllowed(allowed))
        case .none, .route:
            decision.use(decision.pathIsVerbatim ? policy.dialect(at: sent) : policy.dialect(at: decision.path))
            decision.refuse(.notFound)
        }
    }

    /// Strips the prefix that `pattern` matches, if it ends at a segment.
    private func removePrefix(_ pattern: RawSpan, _ verbatim: RawSpan, _ decision: inout Decision) {
        if decision.pathIsVerbatim {
            guard let count = PathPattern.matchedPrefix(of: verbatim, by: pattern) else { return }
            decision.pathIsVerbatim = false
            decision.pathBytes.removeAll()
            decision.pathBytes.append(verbatim.dropping(count))
        } else {
            guard let count = PathPattern.matchedPrefix(of: decision.path, by: pattern) else { return }
            decision.pathBytes.discard(count)
        }
        if decision.pathBytes.isEmpty { decision.pathBytes.append(UInt8(ascii: "/")) }
    }

    /// Reads `grpc-timeout`. False if it is malformed, or the client's time is over.
    func readTimeout(_ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision) -> Bool {
        switch head.grpcTimeout(bytes) {
        case .none: return true
        case .malformed: decision.refuse(.badRequest(.grpcTimeout))
        case .timeout(let timeout):
            decision.grpcTimeout = timeout
            if timeout.nanoseconds > 0 { return true }
            decision.refuse(.timeout)
        }
        return false
    }
}
