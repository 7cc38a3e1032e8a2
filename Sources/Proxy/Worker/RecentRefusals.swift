internal import Gate
import HTTP
internal import Wire

/// The newest refusals of one worker, kept for whoever asks why. To keep one swaps buffers and allocates nothing in the
/// steady state; words are made of it only when somebody asks.
struct RecentRefusals: ~Copyable {
    static let most = 256

    private var kept = Slab<KeptRefusal> { KeptRefusal() }
    /// Refusals so far; the place of the newest follows from it.
    private var count = 0
    /// The policy before the one in force: requests it decided about may still be on their way.
    private var former: Policy?

    mutating func adopted(formerly policy: Policy) { former = policy }

    /// Keeps `note`, and leaves another in its place. What was decided two policies ago is past telling.
    mutating func keep(_ note: inout DecisionRecord, _ requestID: RawSpan, policy: Policy, at now: WallTime) {
        let decider = note.policyVersion == policy.version ? policy : former
        guard let decider, decider.version == note.policyVersion else { return }
        if count < Self.most { _ = kept.take() }
        let place = SlabIndex<KeptRefusal>(number: UInt32(count % Self.most))
        count += 1
        swap(&kept[place].note, &note)
        kept[place].requestID.removeAll()
        kept[place].requestID.append(requestID)
        kept[place].at = now
        kept[place].policy = decider
    }

    /// The newest first, at most `limit`; those of one request where `requestID` says which.
    func stories(_ requestID: String?, limit: Int) -> [ExplainedRefusal] {
        var stories: [ExplainedRefusal] = []
        for age in 0..<min(count, Self.most) where stories.count < limit {
            let place = SlabIndex<KeptRefusal>(number: UInt32((count - 1 - age) % Self.most))
            let id = kept[place].requestID.readable.text
            guard requestID == nil || requestID == id, let policy = kept[place].policy else { continue }
            stories.append(
                ExplainedRefusal(
                    requestID: id, at: kept[place].at, method: kept[place].note.method, host: kept[place].note.host,
                    path: kept[place].note.sentPath, explanation: Explanation(kept[place].note, policy: policy)))
        }
        return stories
    }
}

/// A refusal as it is kept.
struct KeptRefusal: ~Copyable {
    var note = DecisionRecord()
    var requestID = ByteBuffer()
    var at = WallTime(seconds: 0)
    /// What decided.
    var policy: Policy?
}
