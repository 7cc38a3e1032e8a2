internal import Gate
internal import Proxy
internal import Telemetry
internal import Transport

/// The mailboxes of all workers. Any thread may post; a worker handles messages in the order in which they were posted.
struct WorkerBroadcast: Sendable {
    let mailboxes: [Mailbox<WorkerMessage>]

    /// The worker that does for all what one must do: admin listeners, probes, and Redis calls of the control plane.
    var first: Mailbox<WorkerMessage> { mailboxes[0] }

    func post(_ message: WorkerMessage) {
        for mailbox in mailboxes { mailbox.post(message) }
    }

    /// Suspends until every worker has handled what was posted before.
    func confirmed() async {
        let _: [Void] = await ask { reply in .confirm { reply(()) } }
    }

    /// The metrics of every worker that still runs.
    func reports() async -> [MetricsSnapshot] { await ask { reply in .report(reply) } }

    /// The newest refusals of all workers that fit, the newest first.
    func refusals(_ query: RefusalQuery) async -> [ExplainedRefusal] {
        let stories = await ask { reply in .reportRefusals(query, reply) }
        return Array(stories.joined().sorted { $0.at > $1.at }.prefix(query.limit))
    }

    /// The refusals of each worker since it had had so many, by the number of the worker; those that have drained are missing.
    func newRefusals(since counts: [Int: Int], limit: Int) async -> [Int: NewRefusals] {
        var found: [Int: NewRefusals] = [:]
        for (number, mailbox) in mailboxes.enumerated() {
            found[number] = await mailbox.ask { .reportNewRefusals(since: counts[number], limit: limit, $0) }
        }
        return found
    }

    /// The keys that limits refused most often at all workers, the most refused first.
    func hottestKeys(limit: Int) async -> [HotKey] {
        let reports: [[HotKey]] = await ask { reply in .reportHottestKeys(reply) }
        return HottestKeys.merged(Array(reports.joined()), limit: limit)
    }

    /// The counts of apps of all workers since the last time.
    func apps() async -> [AppCensus.Tally] {
        let taken: [[AppCensus.Tally]] = await ask { reply in .takeApps(reply) }
        return Array(taken.joined())
    }

    /// The stored answers of all workers that are chosen. Once it returns, no worker answers from one that was removed.
    func stored(_ selector: CacheSelector, removes: Bool) async -> CacheTotals {
        var all = CacheTotals()
        for one in await ask({ reply in .cache(.select(selector, removes: removes, reply)) }) { all.add(one) }
        if removes { await confirmed() }
        return all
    }

    /// The condition of the upstreams: as the first worker has it, which judges, with the requests and connections of all.
    func upstreams() async -> [UpstreamStatus] {
        let reports = await ask { reply in .reportUpstreams(reply) }
        guard var statuses = reports.first else { return [] }
        for report in reports.dropFirst() {
            for index in statuses.indices {
                if let same = report.first(where: { $0.name == statuses[index].name }) { statuses[index].add(same) }
            }
        }
        return statuses
    }

    /// Passes the judge's verdict on an address on to the other workers.
    func postVerdict(_ upstream: String, _ address: UpstreamAddress, _ absence: Absence) {
        for mailbox in mailboxes.dropFirst() { mailbox.post(.left(upstream: upstream, address, absence)) }
    }

    private func ask<Answer: Sendable>(_ question: (@escaping @Sendable (Answer) -> Void) -> WorkerMessage) async -> [Answer] {
        var answers: [Answer] = []
        for mailbox in mailboxes {
            if let answer = await mailbox.ask(question) { answers.append(answer) }
        }
        return answers
    }

    /// Asks every other worker to close idle connections of an upstream for `worker`; false where there is no other.
    func makeRoom(for worker: Int, upstream: String, connections: Int) -> Bool {
        guard mailboxes.count > 1 else { return false }
        let asker = mailboxes[worker]
        let request = RoomRequest(upstream: upstream, connections: connections, workers: mailboxes.count - 1) {
            asker.post(.roomMade(upstream: upstream))
        }
        for other in mailboxes.indices where other != worker {
            if !mailboxes[other].post(.makeRoom(request)) { request.answered() }
        }
        return true
    }
}

extension Mailbox<WorkerMessage> {
    /// The answer of the worker to a message with a closure for it; nil from one that has drained, which never answers.
    func ask<Answer: Sendable>(_ question: (@escaping @Sendable (Answer) -> Void) -> WorkerMessage) async -> Answer? {
        await withCheckedContinuation { continuation in
            let isRead = post(question { continuation.resume(returning: $0) })
            if !isRead { continuation.resume(returning: nil) }
        }
    }
}
