package import HTTP
package import Wire

/// How long an answer is stored by its head (RFC 9111, RFC 5861), within the rule of its route.
package struct CacheJudgement: Equatable, Sendable {
    /// Seconds since the answer was made, when it came (RFC 9111 §4.2.3).
    package private(set) var age: Int64 = 0
    /// For how long it is fresh from then on, and for how long it may be used afterwards: while it is fetched anew, and while that fails.
    package private(set) var freshSeconds: Int64 = 0
    package private(set) var staleSeconds: Int64 = 0
    package private(set) var errorSeconds: Int64 = 0
    /// The request fields by which the upstream chose it, in lower case.
    package private(set) var vary: [[UInt8]] = []
    /// The names under which it can be purged (`Surrogate-Key`, `Cache-Tag`).
    package private(set) var tags: [[UInt8]] = []

    /// Statuses whose answers are stored without a word of the upstream about it, and those for which it must say how long.
    private static let statuses: Set<Int> = [200, 203, 204, 300, 301, 308]
    private static let statusesByWord: Set<Int> = [302, 307, 404, 410]
    /// Fields that the gateway writes anew for each request.
    private static let ownFields: [StaticString] = ["x-forwarded-for", "x-real-ip", "x-request-id", "traceparent", "tracestate", "via"]
    /// Names in `Vary`, and tags of one answer, beyond which it is not stored.
    private static let maxNames = 16, maxTags = 128

    /// nil if it is not stored.
    ///
    /// - Parameters:
    ///   - isShared: whether other callers than the one who asked may get it.
    ///   - delay: seconds from the request to the answer.
    package init?(
        _ head: borrowing ResponseHead, _ bytes: RawSpan, _ rule: CacheRule, isShared: Bool, delay: Int64, at now: WallTime
    ) {
        let fields = CachingFields(head.fields, bytes)
        guard let ruled = rule.freshSeconds, !fields.forbids, !fields.isPrivate || !isShared else { return nil }
        let lifetime = fields.lifetime(at: now)
        guard Self.statuses.contains(head.status) || Self.statusesByWord.contains(head.status) && lifetime != nil else { return nil }
        guard readVary(head.fields, bytes), readTags(head.fields, bytes) else { return nil }
        let sinceDate = fields.date.map { max(0, now.seconds.subtractingReportingOverflow($0.seconds).partialValue) } ?? 0
        age = max(min(sinceDate, CachingFields.longest), fields.age + max(0, delay))
        freshSeconds = max(0, min(Int64(ruled), lifetime.map { $0 - age } ?? .max))
        if !fields.mustRevalidate {
            staleSeconds = min(Int64(rule.staleSeconds ?? 0), fields.staleWhileRevalidate ?? .max)
            errorSeconds = min(Int64(rule.errorSeconds ?? 0), fields.staleIfError ?? .max)
        }
        guard freshSeconds + staleSeconds + errorSeconds > 0 else { return nil }
    }

    /// False if no key can hold the fields.
    private mutating func readVary(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> Bool {
        for index in 0..<fields.count where fields[index].known == .vary {
            var names = ListElements(bytes[fields[index].value])
            while let name = names.next() {
                guard !name.equals("*"), !Self.ownFields.contains(where: { name.equalsIgnoringCase($0) }) else { return false }
                if !name.isEmpty { note(name.lowercased) }
            }
        }
        // An upstream that chooses a coding and does not say so would have its choice handed to clients that cannot read it.
        if fields.contains(.contentEncoding) { note(Array("accept-encoding".utf8)) }
        return vary.count <= Self.maxNames
    }

    private mutating func note(_ name: [UInt8]) {
        if !vary.contains(name) { vary.append(name) }
    }

    private mutating func readTags(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> Bool {
        for index in 0..<fields.count where fields[index].known == .other {
            let name = bytes[fields[index].name]
            guard name.equalsIgnoringCase("surrogate-key") || name.equalsIgnoringCase("cache-tag") else { continue }
            tags += bytes[fields[index].value].array.split { $0 == 0x20 || $0 == 0x09 || $0 == UInt8(ascii: ",") }.map(Array.init)
        }
        return tags.count <= Self.maxTags
    }
}

/// The fields of an answer about caching. Numbers are bounded, so that sums do not overflow.
private struct CachingFields {
    /// 2^31 seconds stand for any longer time (RFC 9111 §1.2.2).
    static let longest: Int64 = 1 << 31

    /// Whether it must not be stored by anyone, or not be used without asking the upstream.
    var forbids = false
    var isPrivate = false
    var mustRevalidate = false
    var staleWhileRevalidate: Int64?
    var staleIfError: Int64?
    var age: Int64 = 0
    var date: WallTime?
    private var maxAge: Int64?
    private var sharedMaxAge: Int64?
    /// nil without one; a field that is malformed, or repeated, is in the past (RFC 9111 §5.3).
    private var expires: WallTime?

    init(_ fields: borrowing FieldTable, _ bytes: RawSpan) {
        forbids = fields.contains(.setCookie)
        for index in 0..<fields.count {
            let value = bytes[fields[index].value]
            switch fields[index].known {
            case .cacheControl: read(value)
            case .pragma where !fields.contains(.cacheControl): if value.equalsIgnoringCase("no-cache") { forbids = true }
            case .age where index == fields.first(.age):
                age = Self.seconds(value.extracting(0..<(value.firstIndex(of: UInt8(ascii: ",")) ?? value.byteCount))) ?? 0
            case .date: date = fields.isRepeated(.date) ? nil : HTTPDate.parse(value)
            case .expires: expires = fields.isRepeated(.expires) ? WallTime(seconds: 0) : HTTPDate.parse(value) ?? WallTime(seconds: 0)
            // Other fields say nothing of caching.
            default: break
            }
        }
    }

    /// Reads directives. A quoted list of fields is cut at its commas: what is read of it too much only forbids or shortens.
    private mutating func read(_ value: RawSpan) {
        var directives = ListElements(value)
        while let directive = directives.next() {
            let equals = directive.firstIndex(of: UInt8(ascii: "=")) ?? directive.byteCount
            let name = directive.extracting(0..<equals)
            let number = equals < directive.byteCount ? Self.seconds(directive.dropping(equals + 1)) : nil
            if name.equalsIgnoringCase("no-store") || name.equalsIgnoringCase("no-cache") { forbids = true }
            if name.equalsIgnoringCase("private") { isPrivate = true }
            if name.equalsIgnoringCase("must-revalidate") || name.equalsIgnoringCase("proxy-revalidate") { mustRevalidate = true }
            // One that is malformed counts as 0, and of several the least (RFC 9111 §4.2.1).
            if name.equalsIgnoringCase("max-age") { maxAge = min(maxAge ?? .max, number ?? 0) }
            if name.equalsIgnoringCase("s-maxage") {
                sharedMaxAge = min(sharedMaxAge ?? .max, number ?? 0)
                mustRevalidate = true
            }
            if name.equalsIgnoringCase("stale-while-revalidate") { staleWhileRevalidate = min(staleWhileRevalidate ?? .max, number ?? 0) }
            if name.equalsIgnoringCase("stale-if-error") { staleIfError = min(staleIfError ?? .max, number ?? 0) }
        }
    }

    /// How long it is fresh from when it was made, if the upstream says it (RFC 9111 §4.2.1).
    func lifetime(at now: WallTime) -> Int64? {
        if let stated = sharedMaxAge ?? maxAge { return stated }
        guard let expires else { return nil }
        return min(max(0, expires.seconds.subtractingReportingOverflow((date ?? now).seconds).partialValue), Self.longest)
    }

    /// A number of seconds, also in quotes; nil if it is none.
    private static func seconds(_ text: RawSpan) -> Int64? {
        var text = text
        if text.byteCount > 2, text[0] == 0x22, text[text.byteCount - 1] == 0x22 { text = text.extracting(1..<text.byteCount - 1) }
        guard text.byteCount > 0 else { return nil }
        var value: Int64 = 0
        for offset in 0..<text.byteCount {
            guard text[offset].isASCIIDigit else { return nil }
            value = min(value * 10 + Int64(text[offset] - 48), longest)
        }
        return value
    }
}

extension RawSpan {
    fileprivate var lowercased: [UInt8] { array.map { 65...90 ~= $0 ? $0 | 0x20 : $0 } }
}
