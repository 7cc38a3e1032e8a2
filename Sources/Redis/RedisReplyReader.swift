import CHiredis
package import Wire

/// Result of reading the bytes fed so far.
package enum RedisReading: Equatable, Sendable {
    /// `reply` holds the next reply.
    case complete
    /// The next reply is incomplete.
    case incomplete
    /// Protocol error, with a reason for the log. Nothing after it can be parsed.
    case broken(String)
}

/// Streaming parser of replies: hiredis's reader, with values recorded in reusable memory. Arrays nest at most seven levels,
/// as in hiredis. One thread at a time.
@safe
package struct RedisReplyReader: ~Copyable {
    private let reader: UnsafeMutableRawPointer
    /// On the heap, because the hiredis reader keeps its address.
    private let recording: UnsafeMutablePointer<RedisReply>
    private var isComplete = false
    /// Whether everything fed was read.
    private var isDrained = true

    /// A parser at the start of a stream.
    package init(limits: RedisReplyLimits = RedisReplyLimits()) {
        unsafe recording = .allocate(capacity: 1)
        unsafe recording.initialize(to: RedisReply(limits: limits))
        guard let reader = unsafe chiredis_reader_new({ unsafe record($0, $1, $2, $3, $4) }, recording) else {
            preconditionFailure("out of memory")
        }
        unsafe self.reader = unsafe reader
    }

    deinit {
        unsafe chiredis_reader_free(reader)
        unsafe recording.deinitialize(count: 1)
        unsafe recording.deallocate()
    }

    /// The reply that `next` found, until the next call of it.
    package var reply: RedisReply {
        unsafeAddress { unsafe UnsafePointer(recording) }
    }

    /// Feeds received bytes. Read all complete replies before feeding more: the limits apply to what is incomplete.
    package mutating func feed(_ bytes: borrowing ByteBuffer) {
        isDrained = false
        // A broken reader ignores them; `next` reports it.
        _ = unsafe bytes.readable.withUnsafeBytes { unsafe chiredis_reader_feed(reader, $0.baseAddress, $0.count) }
    }

    /// Reads the next reply. A broken reader stays broken.
    package mutating func next() -> RedisReading {
        guard !isDrained else { return .incomplete }
        if isComplete { unsafe recording.pointee.removeAll() }
        isComplete = false
        switch unsafe chiredis_reader_next(reader) {
        case 1:
            isComplete = true
            return .complete
        case 0:
            isDrained = true
            let limit = unsafe recording.pointee.limits.bytes
            return unsafe chiredis_reader_waiting(reader) > limit ? .broken(tooLarge) : .incomplete
        default:
            return unsafe .broken(recording.pointee.isTooLarge ? tooLarge : String(cString: chiredis_reader_fault(reader)))
        }
    }

    private var tooLarge: String {
        let limits = unsafe recording.pointee.limits
        return "a reply of more than \(limits.bytes) bytes or \(limits.nodes) values"
    }
}

/// Called by hiredis for each value; 0 stops reading.
private func record(
    _ context: UnsafeMutableRawPointer?, _ kind: Int32, _ number: Int64, _ text: UnsafePointer<CChar>?, _ count: Int
) -> Int32 {
    guard let reply = unsafe context?.assumingMemoryBound(to: RedisReply.self) else { return 0 }
    let bytes = unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(start: text, count: text == nil ? 0 : count))
    let isTaken =
        switch Int(kind) {
        case CHIREDIS_INTEGER: unsafe reply.pointee.append(.integer(number))
        case CHIREDIS_ARRAY: unsafe reply.pointee.append(.array(count: Int(number)))
        case CHIREDIS_NIL: unsafe reply.pointee.append(.null)
        case CHIREDIS_STATUS: unsafe reply.pointee.append(bytes) { .status($0) }
        case CHIREDIS_ERROR: unsafe reply.pointee.append(bytes) { .error($0) }
        case CHIREDIS_BULK: unsafe reply.pointee.append(bytes) { .bulk($0) }
        default: false
        }
    return isTaken ? 1 : 0
}
