/// Index of a label value, stable for the life of the process across reloads.
package struct LabelID: Hashable, Sendable {
    private let number: UInt32

    var index: Int { Int(number) }

    init(index: Int) { number = UInt32(index) }

    /// No route, anonymous, or unknown.
    package static let none = LabelID(index: 0)
}

/// Values of one label, in order of first declaration. Values are only added.
///
/// Bounds the cardinality: beyond `maxValues`, new names share the value `other`.
package struct LabelValues: Equatable, Sendable {
    /// All values ever declared; the first stands for "none".
    private(set) var names: [String]
    /// Per name of the latest declaration, its index.
    private var current: [LabelID] = []
    private var currentNames: Set<Int> = []

    /// Room for a thousand routes and years of renaming.
    static let maxValues = 4_096

    init(none: String) { names = [none] }

    /// The id of the name at `index` of the latest declaration; `.none` out of range.
    package subscript(_ index: Int) -> LabelID { current.indices.contains(index) ? current[index] : .none }

    /// The value of `id`.
    package func name(of id: LabelID) -> String { names.indices.contains(id.index) ? names[id.index] : names[0] }

    /// Makes `declared` the current values. Earlier values keep their index.
    mutating func declare(_ declared: [String]) {
        var known = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($1, $0) })
        current = declared.map { name in
            let wanted = known[name] ?? (names.count < Self.maxValues - 1 ? nil : known["other"])
            if let wanted { return LabelID(index: wanted) }
            let added = names.count < Self.maxValues - 1 ? name : "other"
            names.append(added)
            known[added] = names.count - 1
            return LabelID(index: names.count - 1)
        }
        currentNames = Set(current.map(\.index))
    }

    /// Whether the latest declaration contains the value at `index`.
    func isCurrent(_ index: Int) -> Bool { currentNames.contains(index) }
}

/// Label values that are fixed at start, as lists; values are counted by index into them.
package struct FixedLabelValues: Equatable, Sendable {
    let methods: [String]
    let algorithms: [String]
    let authOutcomes: [String]
    let authReasons: [String]
    let limitOutcomes: [String]
    let limitSources: [String]
    let refusalCodes: [String]

    /// The first of `authReasons` means success.
    package init(
        methods: [String], algorithms: [String], authOutcomes: [String], authReasons: [String], limitOutcomes: [String],
        limitSources: [String], refusalCodes: [String]
    ) {
        // Index 0 is for requests without a valid method, and tokens without an algorithm.
        self.methods = ["-"] + methods
        self.algorithms = ["-"] + algorithms
        self.authOutcomes = authOutcomes
        self.authReasons = authReasons
        self.limitOutcomes = limitOutcomes
        self.limitSources = limitSources
        self.refusalCodes = refusalCodes
    }
}

/// All label values: the fixed ones, and those that the configuration declares at each load.
///
/// Make one at start, keep it with the configuration, `declare` on a copy at a reload, and pass that to each worker. All
/// copies of one lineage agree on every `LabelID` that they share.
package struct MetricLabels: Equatable, Sendable {
    let words: FixedLabelValues
    package private(set) var routes = LabelValues(none: "-")
    package private(set) var upstreams = LabelValues(none: "-")
    package private(set) var tiers = LabelValues(none: "anonymous")
    package private(set) var issuers = LabelValues(none: "-")
    /// Number of declarations: of two copies, the one with more continues the other.
    private(set) var generation = 0

    package init(_ words: FixedLabelValues) { self.words = words }

    /// Declares the names of a configuration, each list in its order there.
    package mutating func declare(routes: [String], upstreams: [String], tiers: [String], issuers: [String]) {
        self.routes.declare(routes)
        self.upstreams.declare(upstreams)
        self.tiers.declare(tiers)
        self.issuers.declare(issuers)
        generation += 1
    }
}
