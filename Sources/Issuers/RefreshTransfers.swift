internal import Fetch
internal import Synchronization
internal import Transport

/// Posts to auth servers from a thread of its own, which begins with the first post. Any thread may call it.
final class RefreshTransfers: Sendable {
    /// What an auth server answered.
    struct Answer: Sendable {
        var status = 0
        var body: [UInt8] = []
        /// Why there is no answer; nil if there is one.
        var complaint: String?
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

    /// Posts that wait or are under way; each is another session's.
    private static let most = 1_024
    private static let largestAnswer = 65_536

    private let box = Box()

    private final class Box: Sendable {
        let state = Mutex(Shared())
    }

    /// Answers within ten seconds.
    func post(_ body: [UInt8], to url: String) async -> Answer {
        await withCheckedContinuation { continuation in
            let complaint = add(Post(body: body, url: url) { continuation.resume(returning: $0) })
            if let complaint { continuation.resume(returning: Answer(complaint: complaint)) }
        }
    }

    /// Gives up what is under way, and ends the thread. Blocks until it has ended.
    func stop() {
        let (thread, waker) = box.state.withLock { state in
            state.hasEnded = true
            return (state.thread, state.waker)
        }
        waker?.wake()
        thread?.join()
    }

    /// Answers why a post cannot be taken, else nil.
    private func add(_ post: Post) -> String? {
        let (complaint, waker) = box.state.withLock { state -> (String?, TransferWaker?) in
            if state.hasEnded { return ("the gateway ends", nil) }
            guard state.arrived.count < Self.most else { return ("too many refreshes wait", nil) }
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
        return complaint
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
            run.giveUp()
            for post in box.state.withLock({ state in
                defer { state.arrived = [] }
                state.waker = nil
                return state.arrived
            }) { post.reply(Answer(complaint: "the gateway ends")) }
        }
    }

    /// What the thread owns.
    private struct Run {
        let group: TransferGroup
        var replies: [Int: @Sendable (Answer) -> Void] = [:]
        var last = 0

        /// Begins `posts`, and moves all on; false without any, for the end.
        mutating func turn(_ posts: [Post]?) -> Bool {
            guard let posts else { return false }
            for post in posts { begin(post) }
            for ended in group.wait(milliseconds: 60_000) {
                let complaint = ended.isTooLarge ? "the answer is larger than 64 KiB" : ended.complaint
                replies.removeValue(forKey: ended.id)?(Answer(status: ended.status, body: ended.body, complaint: complaint))
            }
            return true
        }

        private mutating func begin(_ post: Post) {
            guard replies.count < RefreshTransfers.most else { return post.reply(Answer(complaint: "too many refreshes are under way")) }
            last += 1
            if start(last, post) {
                replies[last] = post.reply
            } else {
                post.reply(Answer(complaint: "libcurl refuses the URL"))
            }
        }

        private func start(_ id: Int, _ post: Post) -> Bool {
            // A refresh token goes where it was set to go, and nowhere else.
            group.start(
                id,
                HTTPTransfer(
                    url: post.url, connectMilliseconds: 3_000, totalMilliseconds: 8_000,
                    largestBody: RefreshTransfers.largestAnswer, body: post.body, isSentOnce: true))
        }

        mutating func giveUp() {
            for reply in replies.values { reply(Answer(complaint: "the gateway ends")) }
            replies = [:]
        }
    }
}
