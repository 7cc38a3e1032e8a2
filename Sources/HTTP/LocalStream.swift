/// The content of a streamed local answer. Backpressure: the source writes the next part once the client has taken the last one.
///
/// The loop calls the closures, which must not block. `begin` comes first, with the function to write by, from any thread; then `taken`
/// each time that nothing waits for the client any more; `ended` last and once, also if the answer never began. What is written
/// afterwards is dropped.
package final class LocalStream: Sendable {
    package enum Part: Sendable {
        case content([UInt8])
        /// The answer is complete.
        case end
    }

    package let begin: @Sendable (_ write: @escaping @Sendable (Part) -> Void) -> Void
    package let taken: @Sendable () -> Void
    package let ended: @Sendable () -> Void

    package init(
        begin: @escaping @Sendable (_ write: @escaping @Sendable (Part) -> Void) -> Void, taken: @escaping @Sendable () -> Void,
        ended: @escaping @Sendable () -> Void
    ) {
        self.begin = begin
        self.taken = taken
        self.ended = ended
    }
}
