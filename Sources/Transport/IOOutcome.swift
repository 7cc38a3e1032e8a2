/// Result of a non-blocking read or write.
package enum IOOutcome: Equatable, Sendable {
    /// Number of bytes moved, at least 1 (0 only if none were offered or requested).
    case done(Int)
    /// Nothing moved: wait for readiness.
    case wouldBlock
    /// End of stream.
    case closed
    /// The connection failed; the errno.
    case failed(Int32)

    /// Written out so that other modules can inline it.
    @inlinable package static func == (left: IOOutcome, right: IOOutcome) -> Bool {
        switch (left, right) {
        case (.wouldBlock, .wouldBlock), (.closed, .closed): true
        case (.done(let left), .done(let right)): left == right
        case (.failed(let left), .failed(let right)): left == right
        case (.done, _), (.wouldBlock, _), (.closed, _), (.failed, _): false
        }
    }
}
