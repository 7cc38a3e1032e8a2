internal import Fetch
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
        let result: Result<FetchedDocument, ParseError>
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
    func start(_ id: Int, url: String) -> ParseError? {
        let request = HTTPTransfer(
            url: url, connectMilliseconds: 3_000, totalMilliseconds: 10_000, largestBody: Self.largestBody, redirects: 3)
        return group.start(id, request) ? nil : ParseError("libcurl refuses the URL")
    }

    /// Moves all fetches on, for at most `milliseconds` or until woken, and answers those that ended.
    func wait(milliseconds: Int32) -> [Outcome] {
        group.wait(milliseconds: milliseconds).map { Outcome(id: $0.id, result: Self.result($0)) }
    }

    private static func result(_ ended: EndedTransfer) -> Result<FetchedDocument, ParseError> {
        if ended.isTooLarge { return .failure(ParseError("the answer is larger than 1 MiB")) }
        if let complaint = ended.complaint { return .failure(ParseError(complaint)) }
        guard ended.status == 200 else { return .failure(ParseError("the answer has the status \(ended.status)")) }
        let maxAge = ended.cacheControl.flatMap { CacheControl.maxAge($0) }
        return .success(FetchedDocument(body: ended.body, maxAge: maxAge, serverTime: serverTime(ended)))
    }

    private static func serverTime(_ ended: EndedTransfer) -> WallTime? {
        guard let date = ended.date?.withRawBytes(HTTPDate.parse) else { return nil }
        let age = ended.age.flatMap { UInt32($0) } ?? 0
        return WallTime(seconds: date.seconds + Int64(age))
    }
}
