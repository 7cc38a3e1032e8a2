/// How messages leave the gateway: the mail server, the SMS webhook, and what the messages say of the sender.
package struct MailPlan: Sendable, Equatable {
    /// nil: mail goes to the development outbox.
    package var mail: MailRoute?
    /// The webhook for text messages; nil: they go to the development outbox.
    package var smsURL: String?
    /// The sender's name in the messages: `sender`, else the host of `publicURL`.
    package var signature: String
    /// The start of a reset link, to which the token is added; nil: the mail carries the bare token.
    package var resetURL: String?

    /// A mail server, and the address it sends from.
    package struct MailRoute: Sendable, Equatable {
        package var server: MailServer
        package var from: Sender

        package init(server: MailServer, from: Sender) {
            self.server = server
            self.from = from
        }
    }

    package init(mail: MailRoute?, sender: String?, smsURL: String?, resetURL: String?, publicURL: String) {
        self.mail = mail
        self.smsURL = smsURL
        self.resetURL = resetURL
        signature = sender ?? Self.host(of: publicURL)
    }

    /// The channels that have nowhere to go, as the log names them.
    package var outboxChannels: [String] {
        (mail == nil ? ["mail (SMTP_URL is not set)"] : []) + (smsURL == nil ? ["SMS (TOLLGATE_SMS_URL is not set)"] : [])
    }

    private static func host(of url: String) -> String {
        let rest = url.firstRange(of: "://").map { url[$0.upperBound...] } ?? url[...]
        return String(rest.prefix { $0 != "/" && $0 != ":" && $0 != "?" })
    }
}
