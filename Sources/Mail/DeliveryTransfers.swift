internal import Fetch

/// How long a mail server may take.
struct MailPatience: Sendable {
    /// For each of its answers, in whole seconds.
    var answerMilliseconds = 15_000
    /// For a mail.
    var totalMilliseconds = 60_000
}

extension TransferGroup {
    /// Starts a mail transfer, which `wait` returns under `id` when it ends. False if libcurl refuses.
    func start(_ id: Int, _ mail: Mail, by server: MailServer, _ patience: MailPatience) -> Bool {
        start(
            id,
            MailTransfer(
                url: server.url, user: server.user, password: server.password, demandsTLS: server.demandsTLS,
                authorityFile: server.authorityFile, from: mail.from.text, to: mail.to.text, headers: mail.headers,
                text: mail.text, html: mail.html, answerMilliseconds: patience.answerMilliseconds, totalMilliseconds: patience.totalMilliseconds))
    }

    /// Starts a POST of JSON to a webhook, without redirects, which `wait` returns under `id` when it ends. False if libcurl refuses.
    func start(_ id: Int, post body: [UInt8], to url: String) -> Bool {
        start(
            id,
            HTTPTransfer(
                url: url, connectMilliseconds: 5_000, totalMilliseconds: 15_000, largestBody: 65_536, body: body))
    }
}
