internal import CCurl
internal import Wire

/// Hands mails to a mail server and text messages to a webhook, several at a time. Belongs to the one thread that made it;
/// only its `waker` leaves it.
struct DeliveryTransfers {
    /// What a webhook may answer, in bytes; nobody reads it.
    private static let largestAnswer = 65_536

    private let group: TransferGroup

    /// nil when libcurl has no memory.
    init?() {
        guard let group = TransferGroup() else { return nil }
        self.group = group
    }

    var waker: TransferWaker { group.waker }
    var count: Int { group.count }

    /// Begins to hand over a mail; `wait` says under `id` how it ended. False when libcurl refuses.
    func start(_ id: Int, _ mail: Mail, by server: MailServer) -> Bool {
        let texts = CTexts()
        return unsafe group.start(id, largestBody: Self.largestAnswer) { group, receiver in
            var request = unsafe ccurl_mail(
                url: texts.keep(server.url), user: server.user.map { unsafe texts.keep($0) },
                password: server.password.map { unsafe texts.keep($0) }, demands_tls: server.demandsTLS ? 1 : 0,
                authority_file: server.authorityFile.map { unsafe texts.keep($0) }, from: texts.keep("<\(mail.from.text)>"),
                to: texts.keep("<\(mail.to.text)>"), headers: texts.keep(list: mail.headers), text: texts.keep(mail.text),
                html: texts.keep(mail.html), connect_milliseconds: 5_000, answer_milliseconds: 15_000,
                total_milliseconds: 60_000)
            return unsafe ccurl_mail_new(group, &request, receiver)
        }
    }

    /// Begins to post JSON to a webhook; `wait` says under `id` how it ended. False when libcurl refuses.
    func start(_ id: Int, post body: [UInt8], to url: String) -> Bool {
        let texts = CTexts()
        return unsafe group.start(id, largestBody: Self.largestAnswer) { group, receiver in
            unsafe body.withUnsafeBytes { body in
                var request = unsafe ccurl_request(
                    url: texts.keep(url), agent: texts.keep("tollgate/\(Version.text)"), redirect_schemes: texts.keep("https"),
                    redirects: 0, connect_milliseconds: 5_000, total_milliseconds: 15_000, largest_body: Self.largestAnswer,
                    body: body.baseAddress, body_count: body.count, body_type: texts.keep("Content-Type: application/json"),
                    is_sent_once: 0)
                return unsafe ccurl_transfer_new(group, &request, receiver)
            }
        }
    }

    /// Moves all on, for at most `milliseconds` or until woken, and answers those that ended.
    func wait(milliseconds: Int32) -> [EndedTransfer] { group.wait(milliseconds: milliseconds) }
}
