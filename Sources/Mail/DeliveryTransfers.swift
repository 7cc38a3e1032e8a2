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
            server.transfer(
                from: mail.from.text, to: mail.to.text, headers: mail.headers, text: mail.text, html: mail.html, patience))
    }

    /// Starts a POST of JSON to a webhook, without redirects, which `wait` returns under `id` when it ends. False if libcurl refuses.
    func start(_ id: Int, post body: [UInt8], to url: String) -> Bool {
        start(
            id,
            HTTPTransfer(
                url: url, connectMilliseconds: 5_000, totalMilliseconds: 15_000, largestBody: 65_536, body: body))
    }
}

extension MailServer {
    fileprivate func transfer(
        from: String, to: String, headers: [String], text: String, html: String, _ patience: MailPatience
    ) -> MailTransfer {
        MailTransfer(
            url: url, user: user, password: password, demandsTLS: demandsTLS, authorityFile: authorityFile, from: from, to: to,
            headers: headers, text: text, html: html, answerMilliseconds: patience.answerMilliseconds,
            totalMilliseconds: patience.totalMilliseconds)
    }

    /// Connects, with TLS where it is required, and logs in, but sends no mail. Returns why that fails; nil if it does not. Blocks.
    package func logIn() -> (reason: String, isLoginDenied: Bool)? {
        var transfer = transfer(from: "", to: "", headers: [], text: "", html: "", MailPatience())
        transfer.isLoginOnly = true
        guard let transfers = TransferGroup(), transfers.start(0, transfer) else { return ("libcurl refuses the URL", false) }
        while true {
            guard let ended = transfers.wait(milliseconds: 1_000).first else { continue }
            return ended.failure.map { ($0, ended.isLoginDenied) }
        }
    }
}
