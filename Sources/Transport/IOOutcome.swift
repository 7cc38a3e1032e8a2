/// What became of one non-blocking read or write.
package enum IOOutcome: Equatable, Sendable {
    /// So many bytes moved, at least 1 (0 only if none were offered or asked for).
    case done(Int)
    /// Nothing moved: wait for readiness.
    case wouldBlock
    /// The peer's end of stream.
    case closed
    /// The connection is lost; the error number.
    case failed(Int32)

    /// Spelled out so that other modules compare in line.
    @inlinable package static func == (left: IOOutcome, right: IOOutcome) -> Bool {
        switch (left, right) {
        case (.wouldBlock, .wouldBlock), (.closed, .closed): true
        case (.done(let left), .done(let right)): left == right
        case (.failed(let left), .failed(let right)): left == right
        case (.done, _), (.wouldBlock, _), (.closed, _), (.failed, _): false
        }
    }
}
