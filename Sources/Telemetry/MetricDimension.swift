/// A label of metrics: its name, its values, and those that are shown before they are seen.
struct MetricDimension: Sendable {
    let label: String
    /// By index.
    let values: @Sendable (MetricLabels) -> [String]
    /// The values that the configuration declares; nil for a closed list.
    private let declared: (@Sendable (MetricLabels) -> LabelValues)?
    /// Whether every series is shown, even if it is zero.
    private let isShown: Bool

    private static func declared(_ label: String, _ values: @escaping @Sendable (MetricLabels) -> LabelValues) -> Self {
        Self(label: label, values: { values($0).names }, declared: values, isShown: false)
    }

    private static func words(
        _ label: String, isShown: Bool = false, _ values: @escaping @Sendable (MetricLabels) -> [String]
    ) -> Self { Self(label: label, values: values, declared: nil, isShown: isShown) }

    private static func closed<Value: MetricLabelValue>(_ label: String, _ type: Value.Type, isShown: Bool = false) -> Self {
        words(label, isShown: isShown) { _ in Value.allCases.map(\.text) }
    }

    static let route = declared("route") { $0.routes }
    static let policy = declared("policy") { $0.routes }
    static let upstream = declared("upstream") { $0.upstreams }
    static let tier = declared("tier") { $0.tiers }
    static let issuer = declared("issuer") { $0.issuers }

    static let method = words("method") { $0.words.methods }
    static let authOutcome = words("outcome", isShown: true) { $0.words.authOutcomes }
    static let authReason = words("reason") { $0.words.authReasons }
    static let result = words("result") { $0.words.authReasons }
    static let algorithm = words("alg") { $0.words.algorithms }
    static let limitOutcome = words("outcome", isShown: true) { $0.words.limitOutcomes }
    static let limitSource = words("source") { $0.words.limitSources }
    static let refusalCode = words("code") { $0.words.refusalCodes }
    static let codeClass = words("code_class", isShown: true) { _ in ["aborted", "1xx", "2xx", "3xx", "4xx", "5xx"] }
    static let upstreamCodeClass = words("code_class", isShown: true) { _ in
        ["error", "1xx", "2xx", "3xx", "4xx", "5xx", "cancelled"]
    }

    static let connectionState = closed("state", ConnectionState.self, isShown: true)
    static let upstreamState = closed("state", UpstreamConnectionState.self, isShown: true)
    static let handshake = closed("result", HandshakeResult.self, isShown: true)
    static let tlsVersion = closed("version", HandshakeVersion.self, isShown: true)
    static let ejectionReason = closed("reason", EjectionReason.self, isShown: true)
    static let upstreamBound = closed("reason", UpstreamBound.self, isShown: true)
    static let retryReason = closed("reason", RetryReason.self, isShown: true)
    static let refreshResult = closed("outcome", RefreshResult.self, isShown: true)
    static let refreshSource = closed("role", RefreshSource.self, isShown: true)
    static let overload = closed("reason", OverloadReason.self, isShown: true)
    static let redisNode = closed("state", RedisNodeState.self, isShown: true)
    static let redisCommand = closed("cmd", RedisCommandKind.self)
    static let redisResult = closed("result", RedisCommandResult.self)
    static let redisRedirect = closed("reason", RedisRedirectKind.self)
    static let phase = closed("phase", OverheadPhase.self)
    static let filterAction = closed("action", FilterAction.self)
    static let filterFailure = closed("reason", FilterFailureReason.self)
    static let cacheResult = closed("result", CacheResult.self)
    static let contentCoding = closed("coding", CompressionCoding.self)
    static let compressionSkip = closed("reason", CompressionSkip.self)
    static let http2End = closed("reason", HTTP2EndReason.self)
    static let streamKind = closed("kind", StreamKind.self)
    static let streamEnd = closed("reason", StreamEndReason.self)
    static let checkKind = closed("endpoint", CheckKind.self)
    static let mirrorOutcome = closed("outcome", MirrorOutcome.self)

    /// The index of `cancelled` among the values of `upstreamCodeClass`.
    static let cancelledAttempt = 6

    /// Whether the value at `index` is a name of an earlier configuration, as of a route that a reload has removed.
    func isFormer(_ index: Int, _ labels: MetricLabels) -> Bool {
        index > 0 && declared.map { !$0(labels).isCurrent(index) } ?? false
    }

    /// Whether a series with the value at `index` is shown even if it is zero: configured names, and closed lists of states.
    /// Methods, reasons and algorithms only once they were seen.
    func isCurrent(_ index: Int, _ labels: MetricLabels) -> Bool { declared?(labels).isCurrent(index) ?? isShown }
}
