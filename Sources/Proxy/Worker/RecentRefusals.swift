internal import Gate
import HTTP
internal import Wire

/// Ring of the newest refusals of one worker, for operators who ask why a request was refused. Keeping one swaps buffers and does not
/// allocate in the steady state; it is rendered only on request.
struct RecentRefusals: ~Copyable {
    static let most = 256

    private var kept = Slab<KeptRefusal> { KeptRefusal() }
    /// Refusals so far; the index of the newest follows from it.
    private var count = 0
    /// The policy before the current one: requests that it decided about may still be under way.
    private var former: Policy?

    mutating func adopted(formerly policy: Policy) { former = policy.plain }

    /// Keeps `note` and leaves an old one in exchange. A decision of an even older policy is dropped: it cannot be explained.
    mutating func keep(_ note: inout DecisionRecord, _ requestID: RawSpan, policy: Policy, at now: WallTime) {
        let decider = note.policyVersion == policy.version ? policy : former
        guard let decider, decider.version == note.policyVersion else { return }
        if count < Self.most { _ = kept.acquire() }
        let index = SlabIndex<KeptRefusal>(number: UInt32(count % Self.most))
        count += 1
        swap(&kept[index].note, &note)
        kept[index].requestID.removeAll()
        kept[index].requestID.append(requestID)
        kept[index].at = now
        kept[index].policy = decider.plain
    }

    /// Those that fit the query, the newest first.
    func stories(_ query: RefusalQuery) -> [ExplainedRefusal] {
        var stories: [ExplainedRefusal] = []
        for age in 0..<min(count, Self.most) where stories.count < query.limit {
            let index = SlabIndex<KeptRefusal>(number: UInt32((count - 1 - age) % Self.most))
            let id = kept[index].requestID.readable.text
            guard query.requestID == nil || query.requestID == id, let policy = kept[index].policy,
                kept[index].note.fits(query, policy)
            else { continue }
            stories.append(
                ExplainedRefusal(
                    requestID: id, at: kept[index].at, method: kept[index].note.method, host: kept[index].note.host,
                    path: kept[index].note.sentPath, route: kept[index].note.route(policy), user: kept[index].note.user,
                    explanation: Explanation(kept[index].note, policy: policy)))
        }
        return stories
    }

    /// Those since there were `earlier`, the newest first, at most `limit`; none but the count if `earlier` is nil.
    func stories(since earlier: Int?, limit: Int) -> NewRefusals {
        let new = count - (earlier ?? count)
        let told = stories(RefusalQuery(limit: min(new, limit)))
        return NewRefusals(stories: told, skipped: new - told.count, count: count)
    }
}

/// One kept refusal.
struct KeptRefusal: ~Copyable {
    var note = DecisionRecord()
    var requestID = ByteBuffer()
    var at = WallTime(seconds: 0)
    /// The policy that decided.
    var policy: Policy?
}
