package import Wire

/// One value of a reply (RESP2). Slices lie in the bytes of the reply that the node belongs to.
package enum RedisNode: Equatable, Sendable {
    case integer(Int64)
    /// A short text of the server's own: `OK`.
    case status(Slice)
    /// A command that failed; the text begins with its kind: `WRONGTYPE Operation against …`.
    case error(Slice)
    /// A string of bytes.
    case bulk(Slice)
    /// A string or an array that is not there.
    case null
    /// So many values follow, each with all that belongs to it.
    case array(count: Int)
}

/// How much of a single reply is kept, so that no server can make the gateway grow.
package struct RedisReplyLimits: Equatable, Sendable {
    /// Bytes of all texts in one reply, and of one value that has not come whole.
    package var bytes = 256 * 1_024
    /// Values in one reply.
    package var nodes = 16_384

    package init() {}
}

/// A whole reply as a flat list: an array stands before its elements, so node 0 is the root and a reply of four integers
/// has five nodes. Reading the next reply uses the same memory again.
package struct RedisReply: ~Copyable {
    /// In the order in which they were sent; empty before the first reply.
    package private(set) var nodes = UniqueArray<RedisNode>()
    private var texts = ByteBuffer()
    let limits: RedisReplyLimits
    /// A value did not fit into the limits.
    private(set) var isTooLarge = false

    init(limits: RedisReplyLimits) {
        self.limits = limits
    }

    /// The integer at node `index`; nil if there is no such node or it is none.
    package func integer(_ index: Int) -> Int64? {
        guard index < nodes.count, case .integer(let value) = nodes[index] else { return nil }
        return value
    }

    /// The bytes of the status, error or bulk at node `index`; empty if there is no such node or it has none.
    @_lifetime(borrow self)
    package func bytes(_ index: Int) -> RawSpan {
        guard index < nodes.count else { return texts.readable[Slice()] }
        switch nodes[index] {
        case .status(let slice), .error(let slice), .bulk(let slice): return texts.readable[slice]
        case .integer, .null, .array: return texts.readable[Slice()]
        }
    }

    /// The kind of error that the whole reply is; nil if it is none.
    package var errorKind: RedisErrorKind? {
        guard nodes.count > 0, case .error(let slice) = nodes[0] else { return nil }
        return RedisErrorKind(texts.readable[slice])
    }

    /// The error that the whole reply is, for the log: its first 256 bytes; nil if it is none.
    package var errorText: String? {
        guard nodes.count > 0, case .error(let slice) = nodes[0] else { return nil }
        return texts.readable[slice].extracting(first: 256).text
    }

    mutating func removeAll() {
        nodes.removeAll()
        texts.removeAll()
    }

    /// Takes one more value; false if it is too much.
    mutating func append(_ node: RedisNode) -> Bool {
        guard nodes.count < limits.nodes else {
            isTooLarge = true
            return false
        }
        nodes.append(node)
        return true
    }

    /// Takes one more value with a copy of its text; false if it is too much.
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
