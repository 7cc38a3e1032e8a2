internal import Fetch

/// Timeouts of SMTP transfers.
struct MailTimeouts: Sendable {
    /// Of each reply of the server; libcurl counts whole seconds.
    var answerMilliseconds = 15_000
    /// Of the whole transfer.
    var totalMilliseconds = 60_000
}

extension TransferGroup {
    /// Starts a mail transfer, which `wait` returns under `id` when it ends. False if libcurl refuses.
    func start(_ id: Int, _ mail: Mail, by server: MailServer, _ timeouts: MailTimeouts) -> Bool {
        start(
            id,
            server.transfer(
                from: mail.from.text, to: mail.to.text, headers: mail.headers, text: mail.text, html: mail.html, timeouts))
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
        from: String, to: String, headers: [String], text: String, html: String, _ timeouts: MailTimeouts
    ) -> MailTransfer {
        MailTransfer(
            url: url, user: user, password: password, demandsTLS: demandsTLS, authorityFile: authorityFile, from: from, to: to,
            headers: headers, text: text, html: html, answerMilliseconds: timeouts.answerMilliseconds,
            totalMilliseconds: timeouts.totalMilliseconds)
    }

    /// Connects, with TLS where it is required, and logs in, but sends no mail. Returns why that fails; nil if it does not. Blocks.
    package func logIn() -> (reason: String, isLoginDenied: Bool)? {
        var transfer = transfer(from: "", to: "", headers: [], text: "", html: "", MailTimeouts())
        transfer.isLoginOnly = true
        guard let transfers = TransferGroup(), transfers.start(0, transfer) else { return ("libcurl refuses the URL", false) }
        while true {
            guard let ended = transfers.wait(milliseconds: 1_000).first else { continue }
            return ended.failure.map { ($0, ended.isLoginDenied) }
        }
    }
}
