internal import Fetch
internal import Wire

/// A fetched document and the relevant response fields.
struct FetchedDocument {
    var body: [UInt8]
    /// `max-age` in milliseconds, if the response has one.
    var maxAge: UInt64?
    /// The server's clock, if the response has a `Date`: `Date` plus `Age` (RFC 9111 §5.1).
    var serverTime: WallTime?
    /// The type that the server gave it, in words for the log: `the content type text/html`.
    var contentType = "no content type"
}

/// Fetcher of key sets, several at a time. One thread: the one that creates it. Only `waker` may be used from others.
struct JWKSFetcher {
    /// A fetch that has ended.
    struct Outcome {
        let id: Int
        /// The document, or the error.
        let result: Result<FetchedDocument, ParseError>
    }

    /// The maximum size of a key set in bytes.
    static let largestBody = 1 << 20

    private let group: TransferGroup

    /// nil if memory runs out.
    init?() {
        guard let group = TransferGroup() else { return nil }
        self.group = group
    }

    var waker: TransferWaker { group.waker }

    /// Starts to fetch `url`; `wait` returns the outcome under `id`. Returns an error if it cannot start, else nil.
    func start(_ id: Int, url: String) -> ParseError? {
        let request = HTTPTransfer(
            url: url, connectMilliseconds: 3_000, totalMilliseconds: 10_000, largestBody: Self.largestBody, redirects: 3)
        return group.start(id, request) ? nil : ParseError("libcurl refuses the URL")
    }

    /// Drives all fetches and returns those that have ended. If none has, first waits for network activity, for at most
    /// `milliseconds` or until woken.
    func wait(milliseconds: Int32) -> [Outcome] {
        group.wait(milliseconds: milliseconds).map { Outcome(id: $0.id, result: Self.result($0)) }
    }

    private static func result(_ ended: EndedTransfer) -> Result<FetchedDocument, ParseError> {
        if ended.isTooLarge { return .failure(ParseError("the answer is larger than 1 MiB")) }
        if let failure = ended.failure { return .failure(ParseError(failure)) }
        let contentType = shown(contentType: ended.contentType)
        guard ended.status == 200 else {
            return .failure(ParseError("the answer has the status \(ended.status) and \(contentType)"))
        }
        let maxAge = ended.cacheControl.flatMap { CacheControl.maxAge($0) }
        return .success(FetchedDocument(body: ended.body, maxAge: maxAge, serverTime: serverTime(ended), contentType: contentType))
    }

    /// Without its parameters and short. The body is not shown: it might hold a secret.
    private static func shown(contentType: String?) -> String {
        let type = (contentType ?? "").utf8.prefix { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ";") }.prefix(60)
        return type.isEmpty ? "no content type" : "the content type \(String(decoding: type, as: UTF8.self))"
    }

    private static func serverTime(_ ended: EndedTransfer) -> WallTime? {
        guard let date = ended.date?.withRawBytes(HTTPDate.parse) else { return nil }
        let age = ended.age.flatMap { UInt32($0) } ?? 0
        return WallTime(seconds: date.seconds + Int64(age))
    }
}
