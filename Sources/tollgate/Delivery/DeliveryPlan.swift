/// How messages leave the gateway, as the settings say.
struct DeliveryPlan: Sendable, Equatable {
    /// nil: mail goes to the development outbox.
    var mail: MailRoute?
    /// The webhook for text messages; nil: they go to the development outbox.
    var smsURL: String?
    /// Who writes, in the messages.
    var signature: String
    /// What a reset link begins with; nil: the mail brings the bare token.
    var resetURL: String?

    /// A mail server, and who sends.
    struct MailRoute: Sendable, Equatable {
        var server: MailServer
        var from: Sender
    }

    init(_ configuration: Configuration) {
        mail = configuration.mailServer.flatMap { server in
            configuration.mailFrom.map { MailRoute(server: server, from: $0) }
        }
        smsURL = configuration.smsURL
        resetURL = configuration.resetURL
        signature = configuration.mailFrom?.name ?? Self.host(of: configuration.publicURL)
    }

    private static func host(of url: String) -> String {
        let rest = url.firstRange(of: "://").map { url[$0.upperBound...] } ?? url[...]
        return String(rest.prefix { $0 != "/" && $0 != ":" && $0 != "?" })
    }
}
