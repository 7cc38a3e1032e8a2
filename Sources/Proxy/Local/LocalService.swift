package import HTTP
import Transport

/// Answers whole requests on the control plane, off the loop.
package typealias LocalHandler = @Sendable (LocalRequest) async -> LocalResponse

/// The one crossing from a loop to async code and back: a request goes up whole, its answer comes back as a message.
enum LocalService {
    static let bodyLimit = 65_536

    /// Starts `handler`; its answer is posted to the loop that owns the exchange. The loop waits for nothing.
    static func start(
        _ handler: @escaping LocalHandler, _ request: LocalRequest, for exchange: Handle<Exchange>,
        answeringTo mailbox: Mailbox<WorkerMessage>
    ) {
        // Unstructured, because its parent is a loop: it ends with the handler, and a stale answer is dropped by its handle.
        Task {
            let response = await handler(request)
            mailbox.post(.answered(exchange, response))
        }
    }
}
