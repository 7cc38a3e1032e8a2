import Synchronization

/// Texts from several threads.
package final class Mailboxes: Sendable {
    private let texts = Mutex<[String]>([])

    package init() {}

    /// Adds a text.
    package func add(_ text: String) { texts.withLock { $0.append(text) } }
    /// All texts so far.
    package var all: [String] { texts.withLock { $0 } }
}
