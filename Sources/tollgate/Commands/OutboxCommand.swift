internal import Admin
internal import Mail
internal import Settings
internal import System
internal import Wire

/// `tollgate outbox`: the messages in the development outbox, the newest last.
enum OutboxCommand {
    static func run(_ configuration: GatewayConfiguration, json: Bool) -> CommandResult {
        do {
            let entries = try Outbox(dataDirectory: configuration.settings.dataDirectory).read()
            return json ? .json { [OutboxEntry].shape.write(entries, &$0) } : CommandResult(output: text(entries))
        } catch {
            return .failed(error.description)
        }
    }

    private static func text(_ entries: [OutboxEntry]) -> String {
        guard !entries.isEmpty else {
            return "The outbox is empty: messages land here if SMTP_URL (mail) or TOLLGATE_SMS_URL (SMS) is not set.\n"
        }
        return entries.map { entry in
            let head = "\(ISO8601.text(entry.at))  \(entry.channel.rawValue) to \(entry.to): \(entry.subject ?? entry.kind)\n"
            let lines = entry.text.split(separator: "\n", omittingEmptySubsequences: false)
            return head + "\n" + lines.map { $0.isEmpty ? "\n" : "    \($0)\n" }.joined()
        }.joined(separator: "\n")
    }
}
