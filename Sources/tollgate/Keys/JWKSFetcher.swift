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

/// Fetches documents, several at a time. Belongs to the one thread that made it; only its `waker` leaves it.
struct JWKSFetcher {
    /// What came of one fetch.
    struct Outcome {
        let id: Int
        /// The document, or why there is none.
        let result: Result<FetchedDocument, Complaint>
    }

    /// The most that a key set may hold, in bytes.
    static let largestBody = 1 << 20

    private let group: TransferGroup

    /// nil when libcurl has no memory.
    init?() {
        guard let group = TransferGroup() else { return nil }
        self.group = group
    }

    var waker: TransferWaker { group.waker }

    /// Begins to fetch `url`; `wait` hands out under `id` what came of it. Answers why it cannot begin, else nil.
    func start(_ id: Int, url: String) -> Complaint? {
        // What begins at an https URL never goes on in the clear.
        let schemes = url.hasPrefix("https:") ? "https" : "http,https"
        let hasBegun = unsafe group.start(id, largestBody: Self.largestBody) { group, receiver in
            unsafe url.withCString { url in
                unsafe "tollgate/\(Version.text)".withCString { agent in
                    unsafe schemes.withCString { schemes in
                        var request = unsafe ccurl_request(
                            url: url, agent: agent, redirect_schemes: schemes, redirects: 3, connect_milliseconds: 3_000,
                            total_milliseconds: 10_000, largest_body: Self.largestBody, body: nil, body_count: 0,
                            body_type: nil, is_sent_once: 0)
                        return unsafe ccurl_transfer_new(group, &request, receiver)
                    }
                }
            }
        }
        return hasBegun ? nil : Complaint("libcurl refuses the URL")
    }

    /// Moves all fetches on, for at most `milliseconds` or until woken, and answers those that ended.
    func wait(milliseconds: Int32) -> [Outcome] {
        group.wait(milliseconds: milliseconds).map { Outcome(id: $0.id, result: Self.result($0)) }
    }

    private static func result(_ ended: EndedTransfer) -> Result<FetchedDocument, Complaint> {
        if ended.isTooLarge { return .failure(Complaint("the answer is larger than 1 MiB")) }
        if let complaint = ended.complaint { return .failure(Complaint(complaint)) }
        guard ended.status == 200 else { return .failure(Complaint("the answer has the status \(ended.status)")) }
        let maxAge = ended.cacheControl.flatMap { CacheControl.maxAge($0) }
        return .success(FetchedDocument(body: ended.body, maxAge: maxAge, serverTime: serverTime(ended)))
    }

    private static func serverTime(_ ended: EndedTransfer) -> WallTime? {
        guard let date = ended.date?.withRawBytes(HTTPDate.parse) else { return nil }
        let age = ended.age.flatMap { UInt32($0) } ?? 0
        return WallTime(seconds: date.seconds + Int64(age))
    }
}
