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
}
