import HTTP
package import Wire

/// `GET /admin/api/outbox`: the messages of channels that are not configured, the newest first.
extension AdminAPI {
    func showOutbox() async throws -> LocalResponse {
        let shown: ShownOutbox
        switch await gateway.controls.outbox() {
        case .success(let read): shown = read
        case .failure(let fault): throw AdminRefusal(503, "UNAVAILABLE", fault.text, [("Retry-After", "5")])
        }
        return .json(200) { json in
            json.beginObject()
            json.array("channels", shown.channels) { $0.string($1) }
            json.array("messages", shown.messages.reversed()) { json, message in
                json.beginObject()
                json.field("at", ISO8601.text(message.at))
                json.field("channel", message.channel)
                json.field("kind", message.kind)
                json.field("to", message.to)
                json.optional("subject", message.subject)
                json.field("text", message.text)
                json.optional("code", message.code)
                json.optional("link", message.link)
                json.endObject()
            }
            json.endObject()
        }
    }
}

/// The development outbox.
package struct ShownOutbox: Sendable {
    package struct Message: Sendable {
        let at: WallTime
        /// `mail` or `sms`.
        let channel: String
        let kind: String
        let to: String
        /// nil for an SMS.
        let subject: String?
        let text: String
        /// The code of the text.
        package var code: String?
        /// The link of the text.
        package var link: String?

        package init(at: WallTime, channel: String, kind: String, to: String, subject: String?, text: String) {
            self.at = at
            self.channel = channel
            self.kind = kind
            self.to = to
            self.subject = subject
            self.text = text
        }
    }

    /// A sentence for the operator.
    package struct Fault: Error {
        let text: String

        package init(_ text: String) { self.text = text }
    }

    /// The channels whose messages land here, `mail` and `sms`; none if both are configured.
    let channels: [String]
    /// The oldest first.
    let messages: [Message]

    package init(channels: [String], messages: [Message]) {
        self.channels = channels
        self.messages = messages
    }
}
