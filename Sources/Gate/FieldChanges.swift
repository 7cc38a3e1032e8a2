import HTTP
package import Wire

/// The fields that a route's messages gain and lose (`request-set=`, `request-remove=`, `response-set=`, `response-remove=`).
package struct FieldChanges: Sendable, Equatable {
    /// Each takes the place of those that the message has.
    package var set: [FieldSetting] = []
    package var removed: [String] = []
    /// Beside those that the message has.
    var added: [FieldSetting] = []

    package init() {}

    package var isEmpty: Bool { self.set.isEmpty && removed.isEmpty && added.isEmpty }
}

/// A field that a route sets: `NAME:value`, with placeholders.
package struct FieldSetting: Sendable, Equatable {
    /// A fact about the request that a value may name.
    package enum Placeholder: String, Sendable, CaseIterable {
        case user, tier, route
        case requestID = "request-id"

        /// As bits of `FieldPlan.Line.needs`.
        fileprivate var bit: UInt8 {
            switch self {
            case .user: 1
            case .tier: 2
            case .route: 4
            case .requestID: 8
            }
        }
    }

    /// Literal text, and the placeholder behind it.
    fileprivate struct Piece: Sendable, Equatable {
        var text: [UInt8]
        var placeholder: Placeholder?
    }

    package let name: String
    /// As written in the settings.
    package let text: String
    fileprivate var pieces: [Piece]

    /// A field with a value that is known to be visible characters.
    init(_ name: String, _ value: String) {
        (self.name, text, pieces) = (name, "\(name):\(value)", [Piece(text: Array(value.utf8))])
    }

    package var placeholders: [Placeholder] { pieces.compactMap(\.placeholder) }

    package init(parsing text: String, of message: FieldOwner) throws(ParseError) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else {
            throw ParseError("is no list of fields, write NAME:value or several with commas")
        }
        try message.check(parts[0], isSet: true)
        name = parts[0]
        self.text = text
        pieces = try Self.pieces(of: parts[1], text)
    }

    private static func pieces(of value: String, _ whole: String) throws(ParseError) -> [Piece] {
        var pieces: [Piece] = []
        var rest = value[...]
        while !rest.isEmpty {
            let open = rest.firstIndex { $0 == "{" || $0 == "}" } ?? rest.endIndex
            guard let text = PercentEncoding.decode(Array(rest[..<open].utf8)), text.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                throw ParseError(
                    "has a value that no field can have: \(quoted(whole)), write visible characters, %20 for a space and %2C for a comma")
            }
            guard open < rest.endIndex else {
                pieces.append(Piece(text: text))
                break
            }
            guard let close = rest.firstIndex(of: "}"), open < close,
                let placeholder = Placeholder(rawValue: String(rest[rest.index(after: open)..<close]))
            else {
                let known = Placeholder.allCases.map { "{\($0.rawValue)}" }.joined(separator: " ")
                throw ParseError("has a brace that names nothing: \(quoted(whole)), write one of \(known), or %7B and %7D for braces")
            }
            pieces.append(Piece(text: text, placeholder: placeholder))
            rest = rest[rest.index(after: close)...]
        }
        let first = pieces.first?.text.first, last = pieces.last.flatMap { $0.placeholder == nil ? $0.text.last : nil }
        guard first != 0x20, last != 0x20 else {
            throw ParseError("has a space at an end of a value: \(quoted(whole)), which no receiver sees, remove it")
        }
        return pieces
    }
}

/// The message that a route's fields belong to, with the names that are not the route's to change.
package enum FieldOwner: Sendable {
    case request, answer

    /// Written anew in every request, or decided about by the gateway.
    private static let ownInRequest: [FieldName] = [.forwarded, .traceparent, .via, .acceptEncoding]
    /// Which part of the content is asked for, and when: answered by upstreams and caches as the client's own.
    private static let conditions: [FieldName] = [.range, .ifRange, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince]
    /// Of the answer's content, of which the gateway makes another, and credentials and counts of its own.
    private static let ownInAnswer: [FieldName] = [
        .contentType, .contentEncoding, .contentRange, .vary, .xRequestID, .wwwAuthenticate, .rateLimit, .rateLimitPolicy,
        .xRateLimitLimit, .xRateLimitRemaining, .xRateLimitReset,
    ]
    /// Written by the gateway, too: an upstream's may be removed, and not set.
    private static let writtenInAnswer: [FieldName] = [.etag, .lastModified, .acceptRanges, .age, .date, .server, .retryAfter]

    /// Whether a route may set, or remove, a field of this name.
    package func check(_ name: String, isSet: Bool) throws(ParseError) {
        let bytes = Array(name.utf8)
        guard !bytes.isEmpty, bytes.count <= 100, bytes.allSatisfy(MethodSet.isTokenByte) else {
            throw ParseError("names \(quoted(name)), which is no name of a field, write one like X-Channel")
        }
        switch fault(bytes.rawBytes, isSet: isSet) {
        case .none: return
        case .framing: throw ParseError("names \(quoted(name)), which frames the message or ends at the gateway, leave it out")
        case .credential: throw ParseError("names \(quoted(name)), which carries a credential, leave it out")
        case .written, .notRemoved: throw ParseError("names \(quoted(name)), which the gateway writes itself, leave it out")
        }
    }

    /// By which the fields of CORS, WebSockets and gRPC begin.
    private static let ownPrefixes: [StaticString] = ["access-control-", "sec-websocket-", "grpc-"]

    private func fault(_ name: RawSpan, isSet: Bool) -> KeptFields.Fault? {
        for own in IdentityHeaders.framing where FoldedName.matchesByRuns(name, own.rawBytes) { return .framing }
        for prefix in Self.ownPrefixes where name.byteCount > prefix.utf8CodeUnitCount {
            if FoldedName.matches(name.extracting(first: prefix.utf8CodeUnitCount), prefix.rawBytes) { return .written }
        }
        let known = FieldName.allCases.first { FoldedName.matches(name, $0.text.rawBytes) } ?? .other
        switch self {
        case .request:
            if known == .authorization || isSet && known == .cookie { return .credential }
            let fault = IdentityHeaders.faultOfKeeping(name)
            if fault != .notRemoved { return fault }
            return Self.ownInRequest.contains(known) || isSet && Self.conditions.contains(known) ? .written : nil
        case .answer:
            if isSet && known == .setCookie { return .credential }
            let isOwn = IdentityHeaders.ownsInAnswer(name) || Self.ownInAnswer.contains(known)
            return isOwn || isSet && Self.writtenInAnswer.contains(known) ? .written : nil
        }
    }
}

/// The compiled changes of one message, for requests in the steady state.
package final class FieldPlan: Sendable {
    /// Literal text, in `text`, and the placeholder behind it.
    private struct Piece: Sendable {
        var text: Slice
        var placeholder: FieldSetting.Placeholder?
    }

    /// The pieces of a field's line, and the placeholders without which it is left out.
    private struct Line: Sendable {
        var pieces: Range<Int>
        var needs: UInt8
    }

    private let text: [UInt8]
    private let pieces: [Piece]
    private let lines: [Line]
    private let names: FieldNames
    private let route: String

    /// nil for no changes.
    init?(_ changes: FieldChanges, of rule: RouteRule) {
        guard !changes.isEmpty else { return nil }
        var text: [UInt8] = [], pieces: [Piece] = [], lines: [Line] = []
        for field in changes.set + changes.added {
            let first = pieces.count
            for (number, piece) in field.pieces.enumerated() {
                let bytes = (number == 0 ? Array("\(field.name): ".utf8) : []) + piece.text
                pieces.append(Piece(text: Slice(start: text.count, count: bytes.count), placeholder: piece.placeholder))
                text += bytes
            }
            lines.append(Line(pieces: first..<pieces.count, needs: field.placeholders.reduce(0) { $0 | $1.bit }))
        }
        (self.text, self.pieces, self.lines) = (text, pieces, lines)
        names = FieldNames(changes.set.map(\.name) + changes.removed)
        route = rule.name
    }

    /// Adds and removes the fields. A line that needs what is not known is left out; the message's own is removed all the same.
    func apply(to edits: inout FieldEdits, requestID: RawSpan, user: RawSpan, tier: String) {
        edits.remove(names)
        let text = text
        let unknown = (user.isEmpty ? FieldSetting.Placeholder.user.bit : 0) | (tier.isEmpty ? FieldSetting.Placeholder.tier.bit : 0)
        for line in lines where line.needs & unknown == 0 {
            for piece in pieces[line.pieces] {
                edits.append(text.rawBytes[piece.text])
                switch piece.placeholder {
                case .none: break
                case .user: edits.append(percentEncoded: user)
                case .tier: tier.withRawBytes { edits.append($0) }
                case .route: route.withRawBytes { edits.append($0) }
                case .requestID: edits.append(requestID)
                }
            }
            edits.end()
        }
    }
}

extension Admission {
    /// Adds and removes the fields that the route of the decision sets and removes. Called once for each request that has such a route,
    /// when its id is known and it waits for no further decision. The answers to a proxy that asks have no fields of the route: they are
    /// not the client's.
    package func changeFields(requestID: RawSpan, _ decision: inout Decision) {
        let tier = decision.tier.map { policy.tiers.name(of: $0) } ?? ""
        // Taken out of the decision while its identity is read.
        if case .forward = decision.verdict, let plan = policy.plans[decision.routeIndex].requestFields {
            var edits = FieldEdits()
            swap(&edits, &decision.requestEdits)
            plan.apply(to: &edits, requestID: requestID, user: decision.userID, tier: tier)
            swap(&edits, &decision.requestEdits)
            // An upstream that merges trailers into the head would find there what was removed from it.
            decision.passesTrailers = false
        }
        if decision.check == nil, let plan = policy.plans[decision.routeIndex].answerFields {
            var edits = FieldEdits()
            swap(&edits, &decision.answerEdits)
            plan.apply(to: &edits, requestID: requestID, user: decision.userID, tier: tier)
            swap(&edits, &decision.answerEdits)
        }
    }
}
