package import Admin
internal import Credentials
package import Mail
internal import Settings
internal import System
internal import Threads

extension AdminOperation {
    static func outbox(_ gateway: some OperatedGateway) -> AdminOperation {
        AdminOperation(
            "GET", "outbox", "getOutbox", "The development outbox: the messages of channels that are not configured, the newest first",
            access: .operator, answers: ShownOutbox.shape
        ) { _, _ in
            let outbox = Outbox(dataDirectory: gateway.configuration.settings.dataDirectory)
            do throws(SystemFault) {
                let read = try await WorkerThread.run("outbox") {
                    Result { () throws(SystemFault) in try outbox.read() }
                }
                return ShownOutbox(channels: gateway.configuration.mail.channelsInOutbox, messages: try read.get().reversed())
            } catch {
                throw AdminRefusal(503, "UNAVAILABLE", "The outbox cannot be read: \(error)", [("Retry-After", "5")])
            }
        }
    }
}

private struct ShownOutbox: Recorded {
    let channels: [OutboxEntry.Channel]
    let messages: [OutboxEntry]

    static let record = Record<Self>(
        "Outbox",
        [
            .has("channels", .array(.cases), about: "Those whose messages land here; empty if both are configured", \.channels),
            .has("messages", \.messages),
        ])
}

extension OutboxEntry: Recorded {
    package static let record = Record<Self>([
        .has("at", \.at), .has("channel", .cases, \.channel), .has("kind", \.kind), .has("to", \.to), .may("subject", \.subject),
        .has("text", \.text), .may("code", \.code), .may("link", \.link),
    ])

    private var code: String? {
        guard case .code(let code) = secret else { return nil }
        return code
    }

    private var link: String? {
        guard case .link(let link) = secret else { return nil }
        return link
    }
}
