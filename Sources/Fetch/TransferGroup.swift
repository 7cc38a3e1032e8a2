internal import CCurl
internal import Wire

/// Several transfers by libcurl at a time, straight to the server and never through a proxy. Belongs to the one thread that
/// made it; only its `waker` leaves it.
@safe package final class TransferGroup {
    package let waker: TransferWaker
    private let group: UnsafeMutableRawPointer
    /// The handles keep a pointer to theirs without a count: it must stay here until `end`.
    private var transfers: [UnsafeMutableRawPointer: Transfer] = unsafe [:]

    /// nil when libcurl has no memory.
    package init?() {
        guard let group = unsafe ccurl_group_new() else { return nil }
        unsafe self.group = group
        waker = unsafe TransferWaker(group)
    }

    deinit {
        waker.close()
        for unsafe handle in unsafe transfers.keys { unsafe ccurl_transfer_free(group, handle) }
        unsafe ccurl_group_free(group)
    }

    /// How many are under way.
    package var count: Int { unsafe transfers.count }

    /// Begins a request; `wait` hands out under `id` what came of it. False when libcurl refuses the URL.
    package func start(_ id: Int, _ request: HTTPTransfer) -> Bool {
        let texts = CTexts()
        // What begins at an https URL never goes on in the clear.
        let schemes = request.url.hasPrefix("https:") ? "https" : "http,https"
        return unsafe begin(id, largestBody: request.largestBody) { group, receiver in
            unsafe (request.body ?? []).withUnsafeBytes { body in
                var order = unsafe ccurl_request(
                    url: texts.keep(request.url), agent: texts.keep("tollgate/\(Version.text)"),
                    redirect_schemes: texts.keep(schemes), redirects: request.redirects,
                    connect_milliseconds: request.connectMilliseconds, total_milliseconds: request.totalMilliseconds,
                    largest_body: request.largestBody, body: request.body == nil ? nil : body.baseAddress,
                    body_count: body.count,
                    body_type: request.body == nil ? nil : texts.keep("Content-Type: application/json"),
                    is_sent_once: request.isSentOnce ? 1 : 0)
                return unsafe ccurl_transfer_new(group, &order, receiver)
            }
        }
    }

    /// Begins to hand over a mail; `wait` hands out under `id` what came of it. False when libcurl refuses.
    package func start(_ id: Int, _ mail: MailTransfer) -> Bool {
        let texts = CTexts()
        return unsafe begin(id, largestBody: MailTransfer.largestAnswer) { group, receiver in
            var order = unsafe ccurl_mail(
                url: texts.keep(mail.url), user: mail.user.map { unsafe texts.keep($0) },
                password: mail.password.map { unsafe texts.keep($0) }, demands_tls: mail.demandsTLS ? 1 : 0,
                authority_file: mail.authorityFile.map { unsafe texts.keep($0) }, from: texts.keep("<\(mail.from)>"),
                to: texts.keep("<\(mail.to)>"), headers: texts.keep(list: mail.headers), text: texts.keep(mail.text),
                html: texts.keep(mail.html), connect_milliseconds: 5_000, answer_milliseconds: 15_000,
                total_milliseconds: 60_000)
            return unsafe ccurl_mail_new(group, &order, receiver)
        }
    }

    private func begin(
        _ id: Int, largestBody: Int, _ make: (UnsafeMutableRawPointer, ccurl_receiver) -> UnsafeMutableRawPointer?
    ) -> Bool {
        let transfer = Transfer(id, largestBody: largestBody)
        let receiver = unsafe ccurl_receiver(
            receive: Transfer.receive, context: Unmanaged.passUnretained(transfer).toOpaque())
        guard let handle = unsafe make(group, receiver) else { return false }
        unsafe transfers[handle] = transfer
        return true
    }

    /// Moves all transfers on, for at most `milliseconds` or until woken, and answers those that ended.
    package func wait(milliseconds: Int32) -> [EndedTransfer] {
        let ended = takeEnded()
        guard ended.isEmpty else { return ended }
        unsafe ccurl_group_wait(group, milliseconds)
        return takeEnded()
    }

    private func takeEnded() -> [EndedTransfer] {
        unsafe ccurl_group_advance(group)
        var ended: [EndedTransfer] = []
        var outcome: Int32 = 0
        while let handle = unsafe ccurl_group_next_ended(group, &outcome) {
            if let transfer = unsafe transfers[handle] { ended.append(unsafe EndedTransfer(handle, transfer, outcome)) }
            unsafe ccurl_transfer_free(group, handle)
            unsafe transfers[handle] = nil
        }
        return ended
    }
}

/// What came of one transfer.
package struct EndedTransfer {
    package let id: Int
    /// The status of the last answer: of HTTP, or the code of SMTP. 0 without one.
    package let status: Int
    package let body: [UInt8]
    /// Whether the answer held more than may be taken.
    package let isTooLarge: Bool
    /// Fields of the answer as they came, without any check.
    package let cacheControl: String?
    package let date: String?
    package let age: String?
    private let outcome: Int32

    fileprivate init(_ handle: UnsafeMutableRawPointer, _ transfer: Transfer, _ outcome: Int32) {
        id = transfer.id
        status = unsafe ccurl_transfer_status(handle)
        body = transfer.body
        isTooLarge = transfer.isTooLarge
        cacheControl = unsafe Self.field("Cache-Control", of: handle)
        date = unsafe Self.field("Date", of: handle)
        age = unsafe Self.field("Age", of: handle)
        self.outcome = outcome
    }

    private static func field(_ name: String, of handle: UnsafeMutableRawPointer) -> String? {
        unsafe ccurl_transfer_field(handle, name).map { unsafe String(cString: $0) }
    }

    /// Why libcurl broke the transfer off; nil if it came to its end, whatever the answer says.
    package var complaint: String? { outcome == 0 ? nil : unsafe String(cString: ccurl_outcome_text(outcome)) }
    /// Whether the server did not accept user and password.
    package var isLoginDenied: Bool { ccurl_outcome_is_login_denied(outcome) != 0 }
}

/// One answer as it comes in.
private final class Transfer {
    let id: Int
    private let largestBody: Int
    private(set) var body: [UInt8] = []
    private(set) var isTooLarge = false

    init(_ id: Int, largestBody: Int) {
        self.id = id
        self.largestBody = largestBody
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        isTooLarge = body.count + bytes.count > largestBody
        if !isTooLarge { unsafe body.append(contentsOf: bytes) }
        return !isTooLarge
    }

    /// What libcurl calls.
    static let receive: ccurl_receive = { bytes, count, context in
        guard let context = unsafe context else { return 0 }
        let transfer = unsafe Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        return unsafe transfer.take(UnsafeRawBufferPointer(start: bytes, count: count)) ? count : 0
    }
}
