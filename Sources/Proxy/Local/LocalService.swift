package import HTTP
internal import Transport
package import Wire

/// Answers whole requests on the control plane, off the loop.
package typealias LocalHandler = @Sendable (LocalRequest) async -> LocalResponse

/// The threads on which a handler runs for this client.
package typealias LocalExecutor = @Sendable (IPAddress) -> any TaskExecutor

/// The endpoints of the gateway itself by what they must not wait for: each kind has slots of its own, so that a flood of sign-ins takes
/// neither the refreshes nor the documents of others away.
package enum LocalKind: Int, CaseIterable, Sendable {
    /// Keys and metadata, under `/.well-known/`.
    case documents
    /// A pair of tokens for a refresh token.
    case refresh
    case other
}

/// The slot of a handler at work, and for whom it counts.
package struct LocalSlot: Sendable {
    let kind: LocalKind
    let share: ShareIndex
}

/// The crossing from a loop to async code and back: a whole request goes up, its answer comes back as a message.
enum LocalService {
    /// Of a request to the admin listeners; others have that of their route.
    static let adminBodyLimit: UInt64 = 65_536

    /// Starts its handler; the answer is posted to the loop that owns the exchange. Does not block.
    static func start(
        _ local: LocalExchange, for exchange: Handle<Exchange>, _ slot: LocalSlot?, answeringTo mailbox: Mailbox<WorkerMessage>
    ) {
        let (handler, request) = (local.handler, local.request)
        // Unstructured, because a loop is no async parent: it ends with the handler, and the handle drops a stale answer.
        Task(executorPreference: local.executor?(request.client)) {
            let response = await handler(request)
            let isRead = mailbox.post(.answered(exchange, response, slot))
            if !isRead { response.stream?.ended() }
        }
    }
}
