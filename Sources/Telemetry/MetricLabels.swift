/// Where a label value is counted: stable for the life of the process, across every reload.
package struct LabelID: Hashable, Sendable {
    let index: Int

    /// No route matched, nobody is signed in, nothing is known.
    package static let none = LabelID(index: 0)
}

/// The values of one label, in the order in which they were first declared. Values are only ever added.
///
/// Cardinality stays bounded however often a configuration changes: past `mostValues` new names share `other`.
package struct LabelValues: Equatable, Sendable {
    /// All values ever declared; the first stands for "none of them".
    private(set) var names: [String]
    /// For each name of the latest declaration, in its order, where it is counted.
    private var current: [LabelID] = []
    private var currentNames: Set<Int> = []

    /// A thousand routes are a large configuration; this leaves room for years of renaming.
    static let mostValues = 4_096

    init(none: String) { names = [none] }

    /// Where the value at `index` of the latest declaration is counted; `.none` outside it.
    package subscript(_ index: Int) -> LabelID { current.indices.contains(index) ? current[index] : .none }

    /// The value that is counted there.
    package func name(of id: LabelID) -> String { names.indices.contains(id.index) ? names[id.index] : names[0] }

    /// Makes `declared` the current values. What was counted before keeps its place.
    mutating func declare(_ declared: [String]) {
        var known = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($1, $0) })
        current = declared.map { name in
            let wanted = known[name] ?? (names.count < Self.mostValues - 1 ? nil : known["other"])
            if let wanted { return LabelID(index: wanted) }
            let added = names.count < Self.mostValues - 1 ? name : "other"
            names.append(added)
            known[added] = names.count - 1
            return LabelID(index: names.count - 1)
        }
        currentNames = Set(current.map(\.index))
    }

    /// Whether the latest declaration names the value at `index`.
    func isCurrent(_ index: Int) -> Bool { currentNames.contains(index) }
}

/// The label values that the code knows, given once at start: lists of words, counted by an index into these very lists.
package struct FixedLabelValues: Equatable, Sendable {
    let methods: [String]
    let algorithms: [String]
    let authOutcomes: [String]
    let authReasons: [String]
    let limitOutcomes: [String]
    let limitSources: [String]

    /// The first of `authReasons` is the one that says that nothing is wrong.
    package init(
        methods: [String], algorithms: [String], authOutcomes: [String], authReasons: [String], limitOutcomes: [String],
        limitSources: [String]
    ) {
        // A head that is no good has no method, and a token that is none no algorithm.
        self.methods = ["-"] + methods
        self.algorithms = ["-"] + algorithms
        self.authOutcomes = authOutcomes
        self.authReasons = authReasons
        self.limitOutcomes = limitOutcomes
        self.limitSources = limitSources
    }
}

/// Every label value that may be counted: the words of the code, and what the configuration declares, again at each
/// reload.
///
/// Make one at start, keep it beside the configuration, `declare` on a copy at a reload and hand that to each worker
/// with the new configuration. All copies of one lineage agree on every `LabelID` that they share.
package struct MetricLabels: Equatable, Sendable {
    let words: FixedLabelValues
    package private(set) var routes = LabelValues(none: "-")
    package private(set) var upstreams = LabelValues(none: "-")
    package private(set) var tiers = LabelValues(none: "anonymous")
    package private(set) var issuers = LabelValues(none: "-")
    /// Declarations so far: of two copies the one with more continues the other.
    private(set) var generation = 0

    package init(_ words: FixedLabelValues) { self.words = words }

    /// The names of a configuration, each list in its order there.
    package mutating func declare(routes: [String], upstreams: [String], tiers: [String], issuers: [String]) {
        self.routes.declare(routes)
        self.upstreams.declare(upstreams)
        self.tiers.declare(tiers)
        self.issuers.declare(issuers)
        generation += 1
    }
}
