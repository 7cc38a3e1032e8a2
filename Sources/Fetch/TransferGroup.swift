internal import CCurl
internal import Wire

/// Concurrent libcurl transfers (a multi handle), never through a proxy. One thread: the one that creates it. Only `waker` may be
/// used from others.
@safe package final class TransferGroup {
    package let waker: TransferWaker
    private let group: UnsafeMutableRawPointer
    /// By libcurl handle, which has an unretained pointer to its transfer: entries stay until the handle is freed.
    private var transfers: [UnsafeMutableRawPointer: Transfer] = unsafe [:]

    /// nil if memory runs out.
    package init?() {
        guard let group = unsafe ccurl_group_new() else { return nil }
        unsafe self.group = group
        waker = unsafe TransferWaker(group)
    }

    deinit {
        waker.close()
        // swift-format-ignore
        for unsafe handle in unsafe transfers.keys { unsafe ccurl_transfer_abandon(group, handle) }
        unsafe ccurl_group_free(group)
    }

    /// The number of transfers under way.
    package var count: Int { unsafe transfers.count }

    /// Starts a request, which `wait` returns under `id` when it ends. False if libcurl refuses the URL.
    package func start(_ id: Int, _ request: HTTPTransfer) -> Bool {
        let texts = CTexts()
        // Redirects never lead from https to http.
        let schemes = request.url.hasPrefix("https:") ? "https" : "http,https"
        return unsafe begin(id, largestBody: request.largestBody) { group, receiver in
            unsafe (request.body ?? []).withUnsafeBytes { body in
                var order = unsafe ccurl_request(
                    url: texts.keep(request.url), agent: texts.keep("tollgate/\(Version.text)"),
                    redirect_schemes: texts.keep(schemes), redirects: request.redirects,
                    connect_milliseconds: request.connectMilliseconds, total_milliseconds: request.totalMilliseconds,
                    largest_body: request.largestBody, body: request.body == nil ? nil : body.baseAddress,
                    body_count: body.count,
                    body_type: request.body == nil ? nil : texts.keep("Content-Type: \(request.bodyType)"),
                    fields: texts.keep(list: request.fields),
                    is_sent_once: request.isSentOnce ? 1 : 0,
                    unix_socket: request.unixSocket.flatMap { $0.hasPrefix("@") ? nil : unsafe texts.keep($0) },
                    abstract_socket: request.unixSocket.flatMap { $0.hasPrefix("@") ? unsafe texts.keep(String($0.dropFirst())) : nil },
                    authority_file: request.authorityFile.map { unsafe texts.keep($0) },
                    client_certificate: request.clientCertificate.map { unsafe texts.keep($0) },
                    client_key: request.clientKey.map { unsafe texts.keep($0) },
                    admit: request.isPublicOnly ? Self.admitsPublic : nil)
                return unsafe ccurl_transfer_new(group, &order, receiver)
            }
        }
    }

    private static let admitsPublic: ccurl_admit = { bytes, count in
        guard let bytes = unsafe bytes else { return 0 }
        let address = unsafe [UInt8](UnsafeRawBufferPointer(start: bytes, count: count))
        return IPAddress(bytes: address.rawBytes)?.isPublic == true ? 1 : 0
    }

    /// Starts a mail transfer, which `wait` returns under `id` when it ends. False if libcurl refuses.
    package func start(_ id: Int, _ mail: MailTransfer) -> Bool {
        let texts = CTexts()
        return unsafe begin(id, largestBody: MailTransfer.largestAnswer) { group, receiver in
            var order = unsafe ccurl_mail(
                url: texts.keep(mail.url), user: mail.user.map { unsafe texts.keep($0) },
                password: mail.password.map { unsafe texts.keep($0) }, demands_tls: mail.demandsTLS ? 1 : 0,
                authority_file: mail.authorityFile.map { unsafe texts.keep($0) }, from: texts.keep("<\(mail.from)>"),
                to: texts.keep("<\(mail.to)>"), headers: texts.keep(list: mail.headers),
                text: mail.isLoginOnly ? nil : texts.keep(mail.text),
                html: texts.keep(mail.html), connect_milliseconds: 5_000,
                answer_milliseconds: mail.answerMilliseconds, total_milliseconds: mail.totalMilliseconds)
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

    /// Sends one request on the calling thread. Blocks for as long as the request may take.
    package static func send(_ request: HTTPTransfer) -> EndedTransfer {
        guard let group = TransferGroup(), group.start(0, request) else { return EndedTransfer(failure: "libcurl refuses the URL") }
        while true {
            if let ended = group.wait(milliseconds: 1_000).first { return ended }
        }
    }

    /// Drives all transfers and returns those that have ended. If none has, first waits for network activity, for at most
    /// `milliseconds` or until woken.
    package func wait(milliseconds: Int32) -> [EndedTransfer] {
        let ended = removeEnded()
        guard ended.isEmpty else { return ended }
        unsafe ccurl_group_wait(group, milliseconds)
        return removeEnded()
    }

    private func removeEnded() -> [EndedTransfer] {
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

/// A transfer that has ended.
package struct EndedTransfer: Sendable {
    package let id: Int
    /// The HTTP status or SMTP reply code of the last response; 0 without one.
    package let status: Int
    package let body: [UInt8]
    /// Whether the response exceeded the maximum body size.
    package let isTooLarge: Bool
    /// Response fields, unchecked; nil if absent.
    package let cacheControl: String?
    package let date: String?
    package let age: String?
    package let contentType: String?
    package let retryAfter: String?
    package let location: String?
    package let replayNonce: String?
    package let links: [String]
    /// libcurl's error; nil if the transfer completed, whatever its status.
    package let failure: String?
    private let outcome: Int32

    /// A transfer that was not begun, or one for a test.
    package init(status: Int = 0, body: [UInt8] = [], failure: String? = nil, date: String? = nil, retryAfter: String? = nil) {
        (id, isTooLarge, outcome, links) = (0, false, 0, [])
        (cacheControl, age, contentType, location, replayNonce) = (nil, nil, nil, nil, nil)
        self.status = status
        self.body = body
        self.failure = failure
        self.date = date
        self.retryAfter = retryAfter
    }

    /// The error of the transfer; nil for a complete response.
    package var problem: String? { isTooLarge ? "the answer is too large" : failure }

    fileprivate init(_ handle: UnsafeMutableRawPointer, _ transfer: Transfer, _ outcome: Int32) {
        id = transfer.id
        status = unsafe ccurl_transfer_status(handle)
        body = transfer.body
        isTooLarge = transfer.isTooLarge
        cacheControl = unsafe Self.field("Cache-Control", of: handle)
        date = unsafe Self.field("Date", of: handle)
        age = unsafe Self.field("Age", of: handle)
        contentType = unsafe Self.field("Content-Type", of: handle)
        retryAfter = unsafe Self.field("Retry-After", of: handle)
        location = unsafe Self.field("Location", of: handle)
        replayNonce = unsafe Self.field("Replay-Nonce", of: handle)
        links = (0..<Self.mostLinks).compactMap { unsafe Self.field("Link", of: handle, $0) }
        failure = outcome == 0 ? nil : unsafe String(cString: ccurl_transfer_error(handle, outcome))
        self.outcome = outcome
    }

    private static let mostLinks = 16

    private static func field(_ name: String, of handle: UnsafeMutableRawPointer, _ index: Int = 0) -> String? {
        unsafe ccurl_transfer_field(handle, name, index).map { unsafe String(cString: $0) }
    }

    /// Whether the server refused user and password.
    package var isLoginDenied: Bool { ccurl_outcome_is_login_denied(outcome) != 0 }
}

/// The response of a transfer under way.
private final class Transfer {
    let id: Int
    private let largestBody: Int
    private(set) var body: [UInt8] = []
    private(set) var isTooLarge = false

    init(_ id: Int, largestBody: Int) {
        self.id = id
        self.largestBody = largestBody
    }

    /// False if the body is too large, which makes libcurl abort the transfer.
    private func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        isTooLarge = body.count + bytes.count > largestBody
        if !isTooLarge { unsafe body.append(contentsOf: bytes) }
        return !isTooLarge
    }

    /// libcurl's write callback.
    static let receive: ccurl_receive = { bytes, count, context in
        guard let context = unsafe context else { return 0 }
        let transfer = unsafe Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        return unsafe transfer.append(UnsafeRawBufferPointer(start: bytes, count: count)) ? count : 0
    }
}
