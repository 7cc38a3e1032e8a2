internal import CCurl
internal import Wire

/// A document that was fetched, and what its answer says besides.
struct FetchedDocument {
    var body: [UInt8]
    /// How long it may be kept in milliseconds, if the answer says so.
    var maxAge: UInt64?
    /// What the server's clock says, if the answer does: `Date`, and the `Age` that a cache between us added (RFC 9111 §5.1).
    var serverTime: WallTime?
}

/// Fetches documents by libcurl, several at a time. Belongs to the one thread that made it; only its `waker` leaves it.
@safe final class JWKSFetcher {
    /// What came of one fetch.
    struct Outcome {
        let id: Int
        /// The document, or why there is none.
        let result: Result<FetchedDocument, Complaint>
    }

    /// The most that a key set may hold, in bytes.
    static let largestBody = 1 << 20

    let waker: FetcherWaker
    private let group: UnsafeMutableRawPointer
    /// The handles keep a pointer to theirs without a count: it must stay here until `end`.
    private var transfers: [UnsafeMutableRawPointer: Transfer] = unsafe [:]

    /// nil when libcurl has no memory.
    init?() {
        guard let group = unsafe ccurl_group_new() else { return nil }
        unsafe self.group = group
        waker = unsafe FetcherWaker(group)
    }

    deinit {
        waker.close()
        for unsafe handle in unsafe transfers.keys { unsafe ccurl_transfer_free(group, handle) }
        unsafe ccurl_group_free(group)
    }

    /// Begins to fetch `url`; `wait` hands out under `id` what came of it. Answers why it cannot begin, else nil.
    func start(_ id: Int, url: String) -> Complaint? {
        let transfer = Transfer(id)
        guard let handle = unsafe begin(url, transfer) else { return Complaint("libcurl refuses the URL") }
        unsafe transfers[handle] = transfer
        return nil
    }

    private func begin(_ url: String, _ transfer: Transfer) -> UnsafeMutableRawPointer? {
        // What begins at an https URL never goes on in the clear.
        let schemes = url.hasPrefix("https:") ? "https" : "http,https"
        return unsafe url.withCString { url in
            unsafe "tollgate/\(Version.text)".withCString { agent in
                unsafe schemes.withCString { schemes in
                    var request = unsafe ccurl_request(
                        url: url, agent: agent, redirect_schemes: schemes, redirects: 3, connect_milliseconds: 3_000,
                        total_milliseconds: 10_000, largest_body: Self.largestBody, receive: Transfer.receive,
                        context: Unmanaged.passUnretained(transfer).toOpaque())
                    return unsafe ccurl_transfer_new(group, &request)
                }
            }
        }
    }

    /// Moves all fetches on, for at most `milliseconds` or until woken, and answers those that ended.
    func wait(milliseconds: Int32) -> [Outcome] {
        let ended = takeEnded()
        guard ended.isEmpty else { return ended }
        unsafe ccurl_group_wait(group, milliseconds)
        return takeEnded()
    }

    private func takeEnded() -> [Outcome] {
        unsafe ccurl_group_advance(group)
        var outcomes: [Outcome] = []
        var outcome: Int32 = 0
        while let handle = unsafe ccurl_group_next_ended(group, &outcome) {
            if let transfer = unsafe transfers[handle] {
                outcomes.append(Outcome(id: transfer.id, result: unsafe result(handle, transfer, outcome)))
            }
            unsafe ccurl_transfer_free(group, handle)
            unsafe transfers[handle] = nil
        }
        return outcomes
    }

    private func result(
        _ handle: UnsafeMutableRawPointer, _ transfer: Transfer, _ outcome: Int32
    ) -> Result<FetchedDocument, Complaint> {
        if transfer.isTooLarge { return .failure(Complaint("the answer is larger than 1 MiB")) }
        guard outcome == 0 else { return .failure(Complaint(unsafe String(cString: ccurl_outcome_text(outcome)))) }
        let status = unsafe ccurl_transfer_status(handle)
        guard status == 200 else { return .failure(Complaint("the answer has the status \(status)")) }
        let maxAge = unsafe field("Cache-Control", of: handle).flatMap(CacheControl.maxAge)
        return .success(FetchedDocument(body: transfer.body, maxAge: maxAge, serverTime: unsafe serverTime(handle)))
    }

    private func serverTime(_ handle: UnsafeMutableRawPointer) -> WallTime? {
        guard let date = unsafe field("Date", of: handle)?.withRawBytes(HTTPDate.parse) else { return nil }
        let age = unsafe field("Age", of: handle).flatMap { UInt32($0) } ?? 0
        return WallTime(seconds: date.seconds + Int64(age))
    }

    private func field(_ name: String, of handle: UnsafeMutableRawPointer) -> String? {
        unsafe ccurl_transfer_field(handle, name).map { unsafe String(cString: $0) }
    }
}

/// One answer as it comes in.
private final class Transfer {
    let id: Int
    private(set) var body: [UInt8] = []
    private(set) var isTooLarge = false

    init(_ id: Int) { self.id = id }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        isTooLarge = body.count + bytes.count > JWKSFetcher.largestBody
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
