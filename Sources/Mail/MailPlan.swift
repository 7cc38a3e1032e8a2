internal import Wire

/// The plan of mail and SMS: mail server, SMS webhook, sender and reset link.
package struct MailPlan: Sendable, Equatable {
    /// The mail server and sender; nil: mail goes to the development outbox.
    package var mail: MailRoute?
    /// The webhook for SMS; nil: they go to the development outbox.
    package var smsURL: String?
    /// The sender's name in messages: `sender`, else the host of `publicURL`.
    package var signature: String
    /// The page of reset links, to which the token is appended; nil: the mail contains the bare token.
    package var resetURL: String?
    package var templates = TemplateSet.builtIn
    /// The page of the way back to a former email, to which the token is appended; nil: there is none.
    package var wayBackURL: String?
    /// The web site or app that iOS and browsers fill in codes of SMS for; nil: it is not named.
    package var smsDomain: String?
    /// The hash by which Android hands an SMS to the app.
    package var smsAppHash: String?

    /// A mail server and the sender.
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

    /// The channels that are not configured: their messages go to the development outbox.
    package var channelsInOutbox: [OutboxEntry.Channel] { (mail == nil ? [.mail] : []) + (smsURL == nil ? [.sms] : []) }

    private static func host(of url: String) -> String {
        let rest = url.firstRange(of: "://").map { url[$0.upperBound...] } ?? url[...]
        return String(rest.prefix { $0 != "/" && $0 != ":" && $0 != "?" })
    }
}
