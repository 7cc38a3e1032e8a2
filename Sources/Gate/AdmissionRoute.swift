import HTTP
import Wire

extension Admission {
    /// Finds the route of the canonical path, and leaves in the decision what the upstream gets as path.
    func findRoute(_ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision) -> Int? {
        let path = bytes[head.path]
        let match: RouteMatch
        let traits: PathTraits
        switch head.form.isAsterisk
            ? .same([]) : CanonicalPath.canonicalise(path, into: &decision.pathBytes, encodedSlash: .pass)
        {
        case .same(let found):
            traits = found
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
        let hasEncodedSlash = traits.contains(.encodedSlash)
        guard case .route(let route) = match, !hasEncodedSlash || policy.gates[route].encodedSlashPasses else {
            refuseUnrouted(match, hasEncodedSlash, &decision)
            return nil
        }
        if traits.contains(.parameters), hidesAnotherRoute(match, head, bytes, &decision) {
            decision.dialect = policy.gates[route].dialect
            decision.refuse(.badRequest(.path(.hiddenRoute)))
            return nil
        }
        let strip = policy.gates[route].strip
        if !strip.isEmpty {
            let texts = policy.texts
            removePrefix(texts.rawBytes[strip], path, &decision)
        }
        return route
    }

    /// Whether the path without its parameters belongs to another rule than `match`, which the path as it is belongs to: an
    /// upstream that cuts parameters off would serve what that other rule is to guard.
    private func hidesAnotherRoute(
        _ match: RouteMatch, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> Bool {
        // Apart from the decision while the decision's path is read.
        var path = ByteBuffer()
        swap(&path, &decision.bareBytes)
        path.removeAll()
        if decision.pathIsVerbatim {
            CanonicalPath.appendWithoutParameters(bytes[head.path], to: &path)
        } else {
            CanonicalPath.appendWithoutParameters(decision.path, to: &path)
        }
        let bareMatch = policy.table.match(
            host: bytes[head.host], path: path.readable, method: head.method, methodText: bytes[head.methodText])
        swap(&path, &decision.bareBytes)
        switch bareMatch {
        case .route, .methodNotAllowed: return bareMatch != match
        case .none: return false
        }
    }

    private func refuseUnrouted(_ match: RouteMatch, _ hasEncodedSlash: Bool, _ decision: inout Decision) {
        if hasEncodedSlash {
            if case .route(let route) = match { decision.dialect = policy.gates[route].dialect }
            return decision.refuse(.badRequest(.path(.encodedSlash)))
        }
        switch match {
        case .methodNotAllowed(let allowed, let route):
            decision.dialect = policy.gates[route].dialect
            decision.refuse(.methodNotAllowed(allowed))
        case .none, .route: decision.refuse(.notFound)
        }
    }

    /// Takes `prefix` off the path, if it ends there or a slash follows.
    private func removePrefix(_ prefix: RawSpan, _ verbatim: RawSpan, _ decision: inout Decision) {
        let count = prefix.byteCount
        if decision.pathIsVerbatim {
            guard Self.begins(verbatim, prefix) else { return }
            decision.pathIsVerbatim = false
            decision.pathBytes.removeAll()
            decision.pathBytes.append(verbatim.dropping(count))
        } else {
            guard Self.begins(decision.path, prefix) else { return }
            decision.pathBytes.discard(count)
        }
        if decision.pathBytes.isEmpty { decision.pathBytes.append(UInt8(ascii: "/")) }
    }

    private static func begins(_ path: RawSpan, _ prefix: RawSpan) -> Bool {
        path.hasPrefix(prefix) && (path.byteCount == prefix.byteCount || path[prefix.byteCount] == UInt8(ascii: "/"))
    }
}
