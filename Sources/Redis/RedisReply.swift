package import Wire

/// One value of a reply (RESP2). Slices refer to the reply's texts.
package enum RedisNode: Equatable, Sendable {
    case integer(Int64)
    /// A simple string: `OK`.
    case status(Slice)
    /// An error; its first word is the kind: `WRONGTYPE Operation against …`.
    case error(Slice)
    /// A bulk string.
    case bulk(Slice)
    /// A null string or array.
    case null
    /// An array; its elements follow.
    case array(count: Int)
}

/// Limits of a single reply, so that no server can exhaust the gateway's memory.
package struct RedisReplyLimits: Equatable, Sendable {
    /// Maximum bytes of all texts of a reply, and of an incomplete value.
    package var bytes = 256 * 1_024
    /// Maximum values in a reply.
    package var nodes = 16_384

    package init() {}
}

/// A reply as a flat list in pre-order: node 0 is the root, and an array of four integers has five nodes. Its memory is
/// reused by the next reply.
package struct RedisReply: ~Copyable {
    /// Empty before the first reply.
    package private(set) var nodes = UniqueArray<RedisNode>()
    private var texts = ByteBuffer()
    let limits: RedisReplyLimits
    /// A value exceeded the limits.
    private(set) var isTooLarge = false

    init(limits: RedisReplyLimits) {
        self.limits = limits
    }

    /// The integer at node `index`; nil if there is none.
    package func integer(_ index: Int) -> Int64? {
        guard index < nodes.count, case .integer(let value) = nodes[index] else { return nil }
        return value
    }

    /// The bytes of the status, error or bulk string at node `index`; empty if there is none.
    @_lifetime(borrow self)
    package func bytes(_ index: Int) -> RawSpan {
        guard index < nodes.count else { return texts.readable[Slice()] }
        switch nodes[index] {
        case .status(let slice), .error(let slice), .bulk(let slice): return texts.readable[slice]
        case .integer, .null, .array: return texts.readable[Slice()]
        }
    }

    /// Kind of error, if the whole reply is one; otherwise nil.
    package var errorKind: RedisErrorKind? {
        guard nodes.count > 0, case .error(let slice) = nodes[0] else { return nil }
        return RedisErrorKind(texts.readable[slice])
    }

    /// Text of the error, if the whole reply is one: its first 256 bytes, for the log.
    package var errorText: String? {
        guard nodes.count > 0, case .error(let slice) = nodes[0] else { return nil }
        return texts.readable[slice].extracting(first: 256).text
    }

    mutating func removeAll() {
        nodes.removeAll()
        texts.removeAll()
    }

    /// Appends a value; false if it exceeds the limits.
    mutating func append(_ node: RedisNode) -> Bool {
        guard nodes.count < limits.nodes else {
            isTooLarge = true
            return false
        }
        nodes.append(node)
        return true
    }

    /// Appends a value with a copy of its text; false if it exceeds the limits.
    mutating func append(_ text: RawSpan, as node: (Slice) -> RedisNode) -> Bool {
        guard texts.count + text.byteCount <= limits.bytes else {
            isTooLarge = true
            return false
        }
        let slice = Slice(start: texts.count, count: text.byteCount)
        texts.append(text)
        return append(node(slice))
    }
}
