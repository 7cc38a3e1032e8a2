internal import Accounts
internal import Fetch
internal import Threads
package import Wire

extension StorefrontFault {
    /// For a status that is no answer to a question.
    init(status: Int) {
        self = .unavailable(
            reason: "the API answers with the status \(status)", retryAfterSeconds: 60, isKeyRefused: status == 401 || status == 403)
    }
}

/// Sends requests to one store's API, again while time is left if the store fails.
package struct StoreRequests: Sendable {
    /// A store answers a notification's question within this time, or the notification comes again: they wait for 10 seconds.
    static let milliseconds: UInt64 = 8_000
    /// The time of one request, so that a slow one leaves room for another.
    private static let requestMilliseconds: UInt64 = 3_000
    /// Between two requests; none behind the last.
    private static let pauses: [UInt64?] = [200, 600, nil]

    /// An answer that is not the store's failure.
    struct Answer: Sendable {
        let status: Int
        let content: [UInt8]
        /// When it was made, by the store's clock; nil without a valid `Date`.
        let at: WallTime?

        var isSuccess: Bool { (200..<300).contains(status) }

        /// The content, which is to be a JSON object; `null` for another.
        var payload: JSONTree { JSONTree(content.rawBytes) ?? .null }
    }

    private let transport: StoreTransport
    private let clock: @Sendable () -> Moment
    private let wait: @Sendable (_ milliseconds: UInt64) async -> Void

    /// `wait` and `clock` are the system's, or a test's.
    package init(
        _ transport: @escaping StoreTransport, clock: @escaping @Sendable () -> Moment = SystemClock.now,
        wait: @escaping @Sendable (_ milliseconds: UInt64) async -> Void = pause(milliseconds:)
    ) {
        self.transport = transport
        self.clock = clock
        self.wait = wait
    }

    /// The end of the time for what begins now.
    var deadline: MonotonicTime { clock().monotonic.advanced(milliseconds: Self.milliseconds) }

    var now: Moment { clock() }

    /// Sends a GET, or a POST of `body`.
    func send(
        _ url: String, _ fields: [String], body: [UInt8]? = nil, bodyType: String = "application/json", until deadline: MonotonicTime
    ) async throws(StorefrontFault) -> Answer {
        var failure = "no time is left"
        for pause in Self.pauses {
            let left = deadline.nanoseconds(since: clock().monotonic) / 1_000_000
            guard left > 0 else { break }
            var transfer = HTTPTransfer(
                url: url, connectMilliseconds: 2_000, totalMilliseconds: Int(min(left, Self.requestMilliseconds)), largestBody: 1 << 20,
                body: body, fields: fields)
            transfer.bodyType = bodyType
            let ended = await transport(transfer)
            switch (ended.problem, ended.status) {
            case (let problem?, _): failure = problem
            case (nil, 429):
                throw .unavailable(
                    reason: "the answer has the status 429", retryAfterSeconds: Self.seconds(ended.retryAfter, now: clock().wall))
            case (nil, 408), (nil, 500...): failure = "the answer has the status \(ended.status)"
            case (nil, let status):
                return Answer(status: status, content: ended.body, at: ended.date?.withRawBytes(HTTPDate.parse))
            }
            if let pause { await wait(pause) }
        }
        throw .unavailable(reason: failure, retryAfterSeconds: 5)
    }

    /// `Retry-After` says seconds; Apple's says when, in milliseconds since 1970.
    private static func seconds(_ retryAfter: String?, now: WallTime) -> Int {
        guard let number = retryAfter.flatMap({ Int64($0) }) else { return 5 }
        return Int(min(max(number > 1_000_000_000_000 ? number / 1_000 - now.seconds : number, 1), 3_600))
    }
}
