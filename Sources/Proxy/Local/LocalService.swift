package import HTTP
import Transport

/// Answers whole requests on the control plane, off the loop.
package typealias LocalHandler = @Sendable (LocalRequest) async -> LocalResponse

/// The crossing from a loop to async code and back: a whole request goes up, its answer comes back as a message.
enum LocalService {
    static let bodyLimit = 65_536

    /// Starts `handler`; its answer is posted to the loop that owns the exchange. Does not block.
    static func start(
        _ handler: @escaping LocalHandler, _ request: LocalRequest, for exchange: Handle<Exchange>, holdsSlot: Bool,
        answeringTo mailbox: Mailbox<WorkerMessage>
    ) {
        // Unstructured, because a loop is no async parent: it ends with the handler, and the handle drops a stale answer.
        Task {
            let response = await handler(request)
            let isRead = mailbox.post(.answered(exchange, response, heldSlot: holdsSlot))
            if !isRead { response.stream?.ended() }
        }
    }
}
