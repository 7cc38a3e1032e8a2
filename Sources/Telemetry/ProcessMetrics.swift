package import Wire

/// The running build, for `tollgate_build_info`.
package struct BuildInfo: Sendable {
    package var version: String
    package var commit: String
    package var swift: String

    package init(version: String, commit: String, swift: String) {
        self.version = version
        self.commit = commit
        self.swift = swift
    }
}

/// Result of fetching an issuer's key set.
package enum KeySetFetch: Int, MetricLabelValue {
    case ok
    /// No answer, or a status other than 200.
    case unreachable
    /// The answer is not a key set.
    case invalid
}

/// Result of asking a tier server.
package enum TierLookupResult: Int, MetricLabelValue {
    case ok
    /// No answer, or one that names no tier. A known tier stays.
    case failed
}

/// The outcome of a merge of two accounts.
package enum MergeCount: Int, MetricLabelValue {
    case made
    /// Services have moved what was the merged account's.
    case taken
    /// The announcement has ended before that.
    case untaken
}

/// The state of a certificate that an authority issues.
package struct RenewalCondition: Sendable, Equatable {
    /// From when on less than a third of its lifetime is left; nil while there is no certificate.
    let lateAt: WallTime?
    /// Why the last order failed; nil if it did not.
    let problem: String?

    package init(lateAt: WallTime?, problem: String?) { (self.lateAt, self.problem) = (lateAt, problem) }

    /// Whether it is missing, or should have been renewed.
    package func isLate(at now: WallTime) -> Bool { lateAt.map { $0 <= now } ?? true }

    /// For `/readyz`.
    package var sentence: String {
        let lack = lateAt == nil ? "no certificate yet" : "not renewed, less than a third of its lifetime is left"
        return problem.map { "\(lack): \($0)" } ?? lack
    }
}

/// Requests of an app's version.
package struct AppCount: Equatable, Sendable {
    package let gate: String
    package let version: String
    package var requests: UInt64

    package init(gate: String, version: String, requests: UInt64) {
        (self.gate, self.version, self.requests) = (gate, version, requests)
    }
}

/// Metrics of the process: a plain value of the control plane, guarded by its owner.
package struct ProcessMetrics: Sendable {
    let build: BuildInfo
    private(set) var reloads = (succeeded: UInt64(0), failed: UInt64(0))
    private(set) var lastReloadSuccess: WallTime?
    package private(set) var keySets: [String: KeySetState] = [:]
    private(set) var tierLookups: [String: [UInt64]] = [:]
    package var clocks = ClockSkews()
    /// When each certificate of the TLS listeners expires, by its first host name.
    package var certificates: [String: WallTime] = [:]
    /// The certificates that an authority issues to the gateway, by their names.
    package var renewals: [String: RenewalCondition] = [:]
    package var bus = BusMetrics()
    /// Live counts evicted from the local limiter.
    package var limitEvictions: UInt64 = 0
    package var attempts: AttemptMetrics
    package var purchases = PurchaseMetrics()
    /// By `MergeCount`.
    package var merges: [UInt64] = MergeCount.allCases.map { _ in 0 }
    /// How often the guard of each route's split has acted.
    package var splitGuards: [String: UInt64] = [:]
    /// The versions of apps.
    package var apps: [AppCount] = []
    /// The scopes that are closed for maintenance.
    package var closed: [String] = []
    /// Live API keys; nil until the store was read.
    package var apiKeys: Int?
    package var events = EventMetrics()
    package var overload = Overload()
    package var spans = SpanCounts()

    package struct KeySetState: Sendable {
        var fetches: [UInt64] = KeySetFetch.allCases.map { _ in 0 }
        package internal(set) var keys = 0
        package internal(set) var lastSuccess: WallTime?

        package var succeeded: UInt64 { fetches[KeySetFetch.ok.rawValue] }
        package var failed: UInt64 { fetches.reduce(0, +) - succeeded }
    }

    package init(build: BuildInfo, attempts: AttemptMetrics = AttemptMetrics(buckets: [])) {
        self.build = build
        self.attempts = attempts
    }

    /// The configuration was read, at start or for a reload; it is in force if `succeeded`.
    package mutating func configurationLoaded(succeeded: Bool, at now: WallTime) {
        if succeeded {
            reloads.succeeded += 1
            lastReloadSuccess = now
        } else {
            reloads.failed += 1
        }
    }

    /// An issuer's key set was fetched; `keys` are in force now.
    package mutating func keySetFetched(issuer: String, _ result: KeySetFetch, keys: Int, at now: WallTime) {
        var state = keySets[issuer] ?? KeySetState()
        state.fetches[result.rawValue] += 1
        state.keys = keys
        if result == .ok { state.lastSuccess = now }
        keySets[issuer] = state
    }

    /// The tier server of an issuer was asked.
    package mutating func tierAsked(issuer: String, _ result: TierLookupResult) {
        tierLookups[issuer, default: TierLookupResult.allCases.map { _ in 0 }][result.rawValue] += 1
    }

    /// Removes issuers that the configuration no longer names.
    package mutating func keepIssuers(_ names: [String]) {
        keySets = keySets.filter { names.contains($0.key) }
        tierLookups = tierLookups.filter { names.contains($0.key) }
    }
}
