import Gate
import HTTP
import Telemetry
import Transport
package import Wire

/// A whole request that the gateway answers itself: a contract's endpoint, a page, a metric. Bounded and collected.
package struct LocalRequest: Sendable {
    package var method: String
    /// The request target as it was sent.
    package var target: String
    /// The target's path, as it was sent.
    package var path: String
    /// With its question mark, or empty.
    package var query: String
    /// In order, names as they were sent.
    package var fields: [(name: String, value: String)]
    package var body: [UInt8]
    package var client: IPAddress
    package var requestID: String

    /// The first value of a field; `name` in lower case.
    package func value(of name: String) -> String? {
        fields.first { $0.name.lowercased() == name }?.value
    }
}

/// The answer to a `LocalRequest`; `Content-Length` and `X-Request-Id` are added on the way out.
package struct LocalResponse: Sendable {
    package var status: Int
    package var fields: [(name: String, value: String)]
    package var body: [UInt8]

    package init(status: Int, contentType: String, body: [UInt8], fields: [(name: String, value: String)] = []) {
        self.status = status
        self.fields = [(name: "Content-Type", value: contentType)] + fields
        self.body = body
    }
}

/// Answers whole requests on the control plane, off the loop.
package typealias LocalHandler = @Sendable (LocalRequest) async -> LocalResponse

/// The one crossing from a loop to async code and back: a request goes up whole, its answer comes back as a message.
enum LocalService {
    static let bodyLimit = 65_536

    /// Starts `handler`; its answer is posted to the loop that owns the exchange. The loop waits for nothing.
    static func start(
        _ handler: @escaping LocalHandler, _ request: LocalRequest, for exchange: Handle,
        answeringTo mailbox: Mailbox<WorkerMessage>
    ) {
        // Unstructured, because its parent is a loop: it ends with the handler, and a stale answer is dropped by its handle.
        Task {
            let response = await handler(request)
            mailbox.post(.answered(exchange, response))
        }
    }
}
