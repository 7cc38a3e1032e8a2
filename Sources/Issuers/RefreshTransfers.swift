internal import Fetch
internal import Synchronization
internal import Transport

/// The thread that posts to refresh endpoints; it starts with the first post. Any thread may call it.
final class RefreshTransfers: Sendable {
    /// The response of a refresh endpoint.
    struct Answer: Sendable {
        var status = 0
        var body: [UInt8] = []
        /// The error if there is no response; otherwise nil.
        var failure: String?
    }

    private struct Post: Sendable {
        let body: [UInt8]
        let url: String
        let reply: @Sendable (Answer) -> Void
    }

    private struct Shared: Sendable {
        var arrived: [Post] = []
        var waker: TransferWaker?
        var thread: WorkerThread?
        var hasEnded = false
    }

    /// The maximum number of posts that are queued, and of those under way.
    private static let maximumPosts = 1_024
    private static let largestAnswer = 65_536

    private let box = Box()

    private final class Box: Sendable {
        let state = Mutex(Shared())
    }

    /// Posts JSON and returns the response within 10 s.
    func post(_ body: [UInt8], to url: String) async -> Answer {
        await withCheckedContinuation { continuation in
            let failure = add(Post(body: body, url: url) { continuation.resume(returning: $0) })
            if let failure { continuation.resume(returning: Answer(failure: failure)) }
        }
    }

    /// Aborts all posts and ends the thread. Blocks.
    func stop() {
        let (thread, waker) = box.state.withLock { state in
            state.hasEnded = true
            return (state.thread, state.waker)
        }
        waker?.wake()
        thread?.join()
    }

    /// Queues a post; returns an error if it cannot, else nil.
    private func add(_ post: Post) -> String? {
        let (failure, waker) = box.state.withLock { state -> (String?, TransferWaker?) in
            if state.hasEnded { return ("the gateway ends", nil) }
            guard state.arrived.count < Self.maximumPosts else { return ("too many refreshes are queued", nil) }
            if state.thread == nil {
                do {
                    state.thread = try start()
                } catch {
                    return ("\(error)", nil)
                }
            }
            state.arrived.append(post)
            return (nil, state.waker)
        }
        waker?.wake()
        return failure
    }

    private func start() throws(SystemFault) -> WorkerThread {
        let box = box
        return try WorkerThread(name: "refresh") {
            guard let group = TransferGroup() else { preconditionFailure("libcurl has no memory") }
            box.state.withLock { $0.waker = group.waker }
            var run = Run(group: group)
            while run.turn(box.state.withLock { state in
                defer { state.arrived = [] }
                return state.hasEnded ? nil : state.arrived
            }) {}
            run.abortAll()
            for post in box.state.withLock({ state in
                defer { state.arrived = [] }
                state.waker = nil
                return state.arrived
            }) { post.reply(Answer(failure: "the gateway ends")) }
        }
    }

    /// The thread's own state.
    private struct Run {
        let group: TransferGroup
        var replies: [Int: @Sendable (Answer) -> Void] = [:]
        var last = 0

        /// Starts `posts` and drives all transfers; false for nil, which ends the thread.
        mutating func turn(_ posts: [Post]?) -> Bool {
            guard let posts else { return false }
            for post in posts { begin(post) }
            for ended in group.wait(milliseconds: 60_000) {
                let failure = ended.isTooLarge ? "the answer is larger than 64 KiB" : ended.failure
                replies.removeValue(forKey: ended.id)?(Answer(status: ended.status, body: ended.body, failure: failure))
            }
            return true
        }

        private mutating func begin(_ post: Post) {
            guard replies.count < RefreshTransfers.maximumPosts else { return post.reply(Answer(failure: "too many refreshes are under way")) }
            last += 1
            if start(last, post) {
                replies[last] = post.reply
            } else {
                post.reply(Answer(failure: "libcurl refuses the URL"))
            }
        }

        private func start(_ id: Int, _ post: Post) -> Bool {
            // No redirects: a refresh token is sent to the configured URL only. No resend: it may be valid only once.
            group.start(
                id,
                HTTPTransfer(
                    url: post.url, connectMilliseconds: 3_000, totalMilliseconds: 8_000,
                    largestBody: RefreshTransfers.largestAnswer, body: post.body, isSentOnce: true))
        }

        mutating func abortAll() {
            for reply in replies.values { reply(Answer(failure: "the gateway ends")) }
            replies = [:]
        }
    }
}
