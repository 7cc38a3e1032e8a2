import Wire

/// The filters of one route, compiled for `JSONFilter`.
package final class FilterPlan: Sendable {
    /// Maximum filters per route.
    package static let capacity = 8

    /// The rule for elements without the field (`filter-unlabelled=`).
    package let unlabelled: UnlabelledRule
    /// Refuses answers with a body that is not JSON (`filter-strict=on`, the default).
    package let isStrict: Bool
    /// Shadow mode (`shadow=filter`): judges and counts, removes nothing.
    package let isShadow: Bool

    /// Bit n: filter n judges objects anywhere.
    let anywhere: UInt8
    /// Bit n: filter n has a path.
    let paths: UInt8
    /// Per filter, the steps of its path: the number of a name, or `element`.
    let steps: [[UInt8]]
    /// Per filter, the number of steps to the judged elements.
    let unitDepths: [Int]
    /// Per name, the filters that look for it anywhere.
    let fields: [UInt8]

    private let names: [Slice]
    private let tiers: [Slice]
    /// Per tier, the suffix of its entity tags.
    private let marks: [[UInt8]]
    private let texts: [UInt8]

    /// Step into an array, in place of a name.
    static let element: UInt8 = 0xFE

    /// Judges nothing.
    static let none = FilterPlan([], tiers: .standard, isStrict: false, isShadow: false)

    package init(
        _ filters: [FilterPath], tiers: TierList, isStrict: Bool, unlabelled: UnlabelledRule = .byForm, isShadow: Bool
    ) {
        precondition(filters.count <= Self.capacity)
        self.isStrict = isStrict
        self.unlabelled = unlabelled
        self.isShadow = isShadow
        var texts: [UInt8] = []
        func add(_ text: String) -> Slice {
            texts += Array(text.utf8)
            return Slice(start: texts.count - text.utf8.count, count: text.utf8.count)
        }
        let words = Self.names(of: filters)
        names = words.map(add)
        self.tiers = tiers.names.map(add)
        let fingerprint = Self.fingerprint(filters, tiers, unlabelled)
        marks = tiers.names.map { Array("~\($0).\(fingerprint)".utf8) }
        self.texts = texts
        anywhere = Self.bits(filters) { $0.isAnywhere }
        paths = Self.bits(filters) { !$0.isAnywhere }
        steps = filters.map { filter in
            filter.steps.map { step in
                guard case .member(let name) = step else { return Self.element }
                return UInt8(words.firstIndex(of: name) ?? 0)
            }
        }
        unitDepths = filters.map(\.unitDepth)
        fields = words.map { word in Self.bits(filters) { $0.isAnywhere && $0.steps == [.member(word)] } }
    }

    private static func names(of filters: [FilterPath]) -> [String] {
        var words: [String] = []
        for case .member(let name) in filters.flatMap(\.steps) where !words.contains(name) { words.append(name) }
        return words
    }

    private static func bits(_ filters: [FilterPath], _ holds: (FilterPath) -> Bool) -> UInt8 {
        filters.indices.reduce(0) { holds(filters[$1]) ? $0 | 1 << UInt8($1) : $0 }
    }

    /// Changes whenever the filters change what a tier receives.
    private static func fingerprint(_ filters: [FilterPath], _ tiers: TierList, _ unlabelled: UnlabelledRule) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        let words = filters.map(\.text) + ["\(unlabelled)"] + tiers.names
        for byte in words.joined(separator: " ").utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        var text = ByteBuffer()
        text.append(hex: hash ^ hash >> 32, digits: 8)
        return text.readable.text
    }

    // MARK: asking

    /// Makes `scanner` stop at the names that a filter looks for.
    func watchNames(in scanner: inout JSONScanner) {
        let texts = texts
        for name in names { scanner.watch(texts.rawBytes[name]) }
    }

    /// Number of a name that a filter looks for; -1 for any other.
    func name(_ text: RawSpan) -> Int { Self.find(text, among: names, texts) }

    /// The filters that remove elements without their field, for callers of `tier`.
    func needingLabels(for tier: Tier) -> UInt8 {
        switch unlabelled {
        case .byForm: paths
        case .keep: 0
        case .drop: anywhere | paths
        case .tier(let counted): tier < counted ? anywhere | paths : 0
        }
    }

    /// The filters by which callers of `tier` may not see a root object that has no label and is no list: with
    /// `filter-unlabelled=TIER` it counts as labelled with that tier.
    func needingRootLabel(for tier: Tier) -> UInt8 {
        guard case .tier(let counted) = unlabelled, tier < counted else { return 0 }
        return anywhere
    }

    /// Whether `text` is the name of a tier that callers of `tier` may see.
    func isVisible(_ text: RawSpan, to tier: Tier) -> Bool {
        let rank = Self.find(text, among: tiers, texts)
        return rank >= 0 && rank <= Int(tier.rawValue)
    }

    private static func find(_ text: RawSpan, among words: [Slice], _ texts: [UInt8]) -> Int {
        let known = texts.rawBytes
        for index in words.indices where Int(words[index].count) == text.byteCount && known[words[index]].equals(text) { return index }
        return -1
    }

    /// Progress along the paths (one byte per filter) of a child, from that of its parent.
    func advance(_ progress: UInt64, by step: UInt8) -> UInt64 {
        var child = progress
        var left = paths
        while left != 0 {
            let filter = left.trailingZeroBitCount
            left &= left &- 1
            let done = Self.done(progress, filter)
            let leads = done < steps[filter].count && steps[filter][done] == step
            let shift = UInt64(truncatingIfNeeded: 8 &* filter)
            child = child & ~(0xFF &<< shift) | UInt64(leads ? done &+ 1 : 0xFF) &<< shift
        }
        return child
    }

    /// Steps of a filter's path that lead to a value; 255 if it is not on the path.
    static func done(_ progress: UInt64, _ filter: Int) -> Int {
        Int(truncatingIfNeeded: progress &>> UInt64(truncatingIfNeeded: 8 &* filter) & 0xFF)
    }

    /// The filters with a path for which `holds` is true of a value with this progress.
    func paths(_ progress: UInt64, where holds: (_ filter: Int, _ done: Int) -> Bool) -> UInt8 {
        var found: UInt8 = 0
        var left = paths
        while left != 0 {
            let filter = left.trailingZeroBitCount
            left &= left &- 1
            let done = Self.done(progress, filter)
            if done != 0xFF, holds(filter, done) { found |= 1 &<< UInt8(truncatingIfNeeded: filter) }
        }
        return found
    }

    /// The filters that judge a value there.
    func units(_ progress: UInt64) -> UInt8 { paths(progress) { $1 == unitDepths[$0] } }

    /// The filters whose field a value there is.
    func fieldsAt(_ progress: UInt64) -> UInt8 { paths(progress) { $1 == steps[$0].count } }

    /// Whether a path continues into the elements of a value there, which should be an array.
    func expectsArray(_ progress: UInt64) -> Bool {
        paths(progress) { $1 < steps[$0].count && steps[$0][$1] == Self.element } != 0
    }

    /// Whether a path continues, before the judged elements, with a name in a value there, which should be an object.
    func expectsObject(_ progress: UInt64) -> Bool {
        paths(progress) { $1 < unitDepths[$0] && steps[$0][$1] != Self.element } != 0
    }

    /// The suffix of a tier's entity tags.
    func markText(of tier: Tier) -> [UInt8] { marks[min(Int(tier.rawValue), marks.count - 1)] }

    func appendMark(of tier: Tier, to out: inout ByteBuffer) { out.append(markText(of: tier)) }
}
