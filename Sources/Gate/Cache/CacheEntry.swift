package import HTTP
internal import Synchronization
package import Wire

/// The head of an answer as it is stored: without fields of one connection, of one request, or that depend on its age.
package final class CacheHead: Sendable {
    package let status: Int
    /// Field lines, each with its CRLF.
    package let lines: [UInt8]
    /// The length of the content; nil if it is not known yet.
    package let length: Int?
    /// When it came, and how many seconds old it was then.
    package let receivedAt: MonotonicTime
    package let age: Int64

    package init(status: Int, lines: [UInt8], length: Int?, receivedAt: MonotonicTime, age: Int64) {
        self.status = status
        self.lines = lines
        self.length = length
        self.receivedAt = receivedAt
        self.age = age
    }

    /// The lines of an answer that are stored.
    package static func lines(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> [UInt8] {
        var out = ByteBuffer(capacity: 512)
        for index in 0..<fields.count {
            let field = fields[index]
            guard !field.endsHere, field.known != .contentLength, field.known != .age, field.known != .trailer else { continue }
            out.append(bytes[field.name])
            out.append(": ")
            out.append(bytes[field.value])
            out.append("\r\n")
        }
        return out.readable.array
    }

    /// The stored lines with those of a 304 in the place of their names, but for fields about the content (RFC 9111 §3.2).
    package func lines(freshenedBy fields: borrowing FieldTable, _ bytes: RawSpan) -> [UInt8] {
        var out = ByteBuffer(capacity: lines.count + 256)
        let lines = lines
        FieldText.forEach(lines.rawBytes) { name, value in
            var isReplaced = false
            for index in 0..<fields.count where Self.freshens(fields[index], bytes) {
                if name.equalsIgnoringCase(bytes[fields[index].name]) { isReplaced = true }
            }
            if !isReplaced { FieldText.append(name, value, to: &out) }
        }
        for index in 0..<fields.count where Self.freshens(fields[index], bytes) {
            FieldText.append(bytes[fields[index].name], bytes[fields[index].value], to: &out)
        }
        return out.readable.array
    }

    private static func freshens(_ field: Field, _ bytes: RawSpan) -> Bool {
        switch field.known {
        case .contentLength, .contentType, .contentEncoding, .contentRange, .age, .trailer: false
        default: !field.endsHere
        }
    }

    /// Seconds since the answer was made.
    package func age(at now: MonotonicTime) -> Int64 { age + Int64(now.nanoseconds(since: receivedAt) / 1_000_000_000) }
}

/// A stored answer, or the mark that answers to a key are not stored. Immutable, but for the count of its uses; workers share it.
package final class CacheEntry: Sendable {
    package let key: CacheKey
    /// Of the entries with this key: the fields by which the upstream chose the answer, in lower case, and their values.
    package let vary: [[UInt8]]
    package let values: [[UInt8]]
    package let tags: [[UInt8]]
    /// nil for a mark.
    package let head: CacheHead?
    package let content: [UInt8]
    package let freshSeconds: Int64
    package let staleSeconds: Int64
    package let errorSeconds: Int64
    /// Its number in the store of its key's home.
    package let serial: UInt64
    package let receivedAt: MonotonicTime
    /// Up to 3: then a use only reads it, so that no memory moves between cores.
    private let uses: Atomic<UInt8>
    private let wasDropped = Atomic(false)

    package init(
        _ key: CacheKey, _ head: CacheHead, _ judgement: CacheJudgement, values: [[UInt8]], content: [UInt8], serial: UInt64,
        uses: UInt8 = 0
    ) {
        self.key = key
        self.values = values
        (vary, tags) = (judgement.vary, judgement.tags)
        (self.head, self.content, self.serial) = (head, content, serial)
        freshSeconds = judgement.freshSeconds
        staleSeconds = judgement.staleSeconds
        errorSeconds = judgement.errorSeconds
        receivedAt = head.receivedAt
        self.uses = Atomic(uses)
    }

    /// A mark: requests with this key that accept the same forms are forwarded, and wait for no other, for so many seconds.
    package init(mark key: CacheKey, lines: [UInt8], seconds: Int64, serial: UInt64, at now: MonotonicTime) {
        self.key = key
        vary = ["accept", "accept-encoding", "accept-language"].map { Array($0.utf8) }
        values = FieldText.values(of: vary, in: lines)
        (tags, head, content) = ([], nil, [])
        (freshSeconds, staleSeconds, errorSeconds) = (seconds, 0, 0)
        self.serial = serial
        receivedAt = now
        uses = Atomic(0)
    }

    /// Bytes that it takes, with what workers need to find it.
    package var size: Int {
        let texts = (vary + values + tags).reduce(0) { $0 + $1.count + 32 }
        return content.count + (head?.lines.count ?? 0) + key.bytes.count + key.path.count + texts + 512
    }

    package enum State: Equatable { case fresh, stale, usableOnError, over }

    package func state(at now: MonotonicTime) -> State {
        let seconds = Int64(now.nanoseconds(since: receivedAt) / 1_000_000_000)
        if seconds < freshSeconds { return .fresh }
        if seconds < freshSeconds + staleSeconds { return .stale }
        return seconds < freshSeconds + errorSeconds ? .usableOnError : .over
    }

    /// Seconds for which it is still fresh; negative once it is stale.
    package func secondsLeft(at now: MonotonicTime) -> Int64 {
        freshSeconds - Int64(now.nanoseconds(since: receivedAt) / 1_000_000_000)
    }

    /// Whether the upstream would choose it for a request with these field lines.
    package func matches(_ lines: [UInt8]) -> Bool { vary.isEmpty || FieldText.values(of: vary, in: lines) == values }

    package func noteUse() {
        let count = uses.load(ordering: .relaxed)
        if count < 3 { uses.store(count + 1, ordering: .relaxed) }
    }

    package var useCount: UInt8 { uses.load(ordering: .relaxed) }

    /// Whether it has left the store: from then on its memory counts for those who still read it.
    package var isDropped: Bool { wasDropped.load(ordering: .relaxed) }

    func drop() { wasDropped.store(true, ordering: .relaxed) }

    func forgetUse() { uses.store(max(useCount, 1) - 1, ordering: .relaxed) }
}

/// The key of a request and its answer, which is compared in full, and the names by which entries are chosen to be removed.
package struct CacheKey: Sendable {
    /// The parts of the request to the upstream by which its answer may differ, without the fields of its `Vary`.
    package let bytes: [UInt8]
    /// A keyed hash of them.
    package let hash: LimitKey
    /// A hash of upstream, host, path and query, for invalidation: the same for all callers.
    package let target: UInt64
    /// The route's name and the path that clients ask for.
    package let route: String
    package let path: [UInt8]
    /// The version of the configuration by which it was made.
    package let generation: Int

    package init(bytes: [UInt8], hash: LimitKey, target: UInt64, route: String, path: [UInt8], generation: Int) {
        (self.bytes, self.hash, self.target) = (bytes, hash, target)
        (self.route, self.path, self.generation) = (route, path, generation)
    }

    package func isSame(as other: RawSpan) -> Bool {
        let own = bytes
        return own.rawBytes.equals(other)
    }
}

/// The entries that an operator means: those that all that is given holds for.
package struct CacheSelector: Equatable, Sendable {
    package var route: String?
    package var path: String?
    package var tag: String?

    package init(route: String? = nil, path: String? = nil, tag: String? = nil) {
        (self.route, self.path, self.tag) = (route, path, tag)
    }

    package func matches(_ key: CacheKey, tags: [[UInt8]]) -> Bool {
        if let route, route != key.route { return false }
        if let path, !key.path.starts(with: path.utf8) { return false }
        if let tag, !tags.contains(Array(tag.utf8)) { return false }
        return true
    }
}

/// Walks field lines as they are stored: a name, a colon, a space, a value, CRLF.
package enum FieldText {
    package static func append(_ name: RawSpan, _ value: RawSpan, to out: inout ByteBuffer) {
        out.append(name)
        out.append(": ")
        out.append(value)
        out.append("\r\n")
    }

    package static func forEach(_ lines: RawSpan, _ body: (RawSpan, RawSpan) -> Void) {
        var start = 0
        while start < lines.byteCount {
            guard let colon = lines.firstIndex(of: UInt8(ascii: ":"), from: start),
                let end = lines.firstIndex(of: UInt8(ascii: "\r"), from: colon)
            else { return }
            body(lines.extracting(start..<colon), lines.extracting(min(colon + 2, end)..<end))
            start = end + 2
        }
    }

    /// The values of all fields of this name, each with a comma behind it, so that no value and an empty one differ.
    package static func values(of name: RawSpan, in lines: RawSpan) -> [UInt8] {
        var out: [UInt8] = []
        forEach(lines) { other, value in
            if other.equalsIgnoringCase(name) { out += value.array + [UInt8(ascii: ",")] }
        }
        return out
    }

    /// The same for each of these names.
    package static func values(of names: [[UInt8]], in lines: [UInt8]) -> [[UInt8]] {
        names.map { name in values(of: name.rawBytes, in: lines.rawBytes) }
    }

    /// The value of the only field of this name.
    package static func soleValue(of name: StaticString, in lines: RawSpan) -> [UInt8]? {
        var found: [[UInt8]] = []
        forEach(lines) { other, value in
            if other.equalsIgnoringCase(name) { found.append(value.array) }
        }
        return found.count == 1 ? found[0] : nil
    }
}
