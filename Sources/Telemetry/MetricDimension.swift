/// Labels of metrics.
enum MetricDimension {
    case route, policy, upstream, tier, issuer
    case method, authOutcome, authReason, result, algorithm
    case codeClass, upstreamCodeClass, connectionState, upstreamState, handshake, tlsVersion
    case ejectionReason, upstreamBound
    case retryReason, limitOutcome, limitSource, phase, redisCommand, redisResult, redisRedirect, redisNode
    case filterAction, filterFailure, cacheResult
    case contentCoding, compressionSkip
    case refreshResult, refreshSource
    case http2End
    case streamKind, streamEnd
    case checkKind, mirrorOutcome
    case overload
    case refusalCode

    /// The label's name.
    var label: String {
        switch self {
        case .route: "route"
        case .policy: "policy"
        case .upstream: "upstream"
        case .tier: "tier"
        case .issuer: "issuer"
        case .method: "method"
        case .authReason, .retryReason, .ejectionReason, .upstreamBound: "reason"
        case .result, .handshake, .cacheResult: "result"
        case .algorithm: "alg"
        case .codeClass, .upstreamCodeClass: "code_class"
        case .refusalCode: "code"
        case .connectionState, .upstreamState: "state"
        case .tlsVersion: "version"
        case .authOutcome, .limitOutcome, .refreshResult, .mirrorOutcome: "outcome"
        case .refreshSource: "role"
        case .limitSource: "source"
        case .redisCommand: "cmd"
        case .redisResult: "result"
        case .redisRedirect: "reason"
        case .redisNode: "state"
        case .phase: "phase"
        case .filterAction: "action"
        case .filterFailure, .http2End, .streamEnd, .overload, .compressionSkip: "reason"
        case .contentCoding: "coding"
        case .streamKind: "kind"
        case .checkKind: "endpoint"
        }
    }

    /// The label's values, by index.
    func values(_ labels: MetricLabels) -> [String] {
        switch self {
        case .route, .policy: labels.routes.names
        case .upstream: labels.upstreams.names
        case .tier: labels.tiers.names
        case .issuer: labels.issuers.names
        case .method: labels.words.methods
        case .authReason, .result: labels.words.authReasons
        case .algorithm: labels.words.algorithms
        case .authOutcome: labels.words.authOutcomes
        case .limitOutcome: labels.words.limitOutcomes
        case .refusalCode: labels.words.refusalCodes
        case .codeClass: ["aborted", "1xx", "2xx", "3xx", "4xx", "5xx"]
        case .upstreamCodeClass: ["error", "1xx", "2xx", "3xx", "4xx", "5xx", "cancelled"]
        case .connectionState: ConnectionState.allCases.map(\.text)
        case .upstreamState: UpstreamConnectionState.allCases.map(\.text)
        case .handshake: HandshakeResult.allCases.map(\.text)
        case .tlsVersion: HandshakeVersion.allCases.map(\.text)
        case .retryReason: RetryReason.allCases.map(\.text)
        case .ejectionReason: EjectionReason.allCases.map(\.text)
        case .upstreamBound: UpstreamBound.allCases.map(\.text)
        case .limitSource: labels.words.limitSources
        case .redisCommand: RedisCommandKind.allCases.map(\.text)
        case .redisResult: RedisCommandResult.allCases.map(\.text)
        case .redisRedirect: RedisRedirectKind.allCases.map(\.text)
        case .redisNode: RedisNodeState.allCases.map(\.text)
        case .refreshResult: RefreshResult.allCases.map(\.text)
        case .refreshSource: RefreshSource.allCases.map(\.text)
        case .http2End: HTTP2EndReason.allCases.map(\.text)
        case .streamKind: StreamKind.allCases.map(\.text)
        case .streamEnd: StreamEndReason.allCases.map(\.text)
        case .checkKind: CheckKind.allCases.map(\.text)
        case .mirrorOutcome: MirrorOutcome.allCases.map(\.text)
        case .overload: OverloadReason.allCases.map(\.text)
        case .phase: OverheadPhase.allCases.map(\.text)
        case .filterAction: FilterAction.allCases.map(\.text)
        case .filterFailure: FilterFailureReason.allCases.map(\.text)
        case .contentCoding: CompressionCoding.allCases.map(\.text)
        case .compressionSkip: CompressionSkip.allCases.map(\.text)
        case .cacheResult: CacheResult.allCases.map(\.text)
        }
    }

    /// The index of `cancelled` among the values of `upstreamCodeClass`.
    static let cancelledAttempt = 6

    /// Whether the value at `index` is a name of an earlier configuration, as of a route that a reload has removed.
    func isFormer(_ index: Int, _ labels: MetricLabels) -> Bool {
        let isDeclared = [.route, .policy, .upstream, .tier, .issuer].contains(self)
        return isDeclared && index > 0 && !isCurrent(index, labels)
    }

    /// Whether a series with the value at `index` is shown even if it is zero: configured names, and closed lists of states.
    /// Methods, reasons and algorithms only once they were seen.
    func isCurrent(_ index: Int, _ labels: MetricLabels) -> Bool {
        switch self {
        case .route, .policy: labels.routes.isCurrent(index)
        case .upstream: labels.upstreams.isCurrent(index)
        case .tier: labels.tiers.isCurrent(index)
        case .issuer: labels.issuers.isCurrent(index)
        case .codeClass, .upstreamCodeClass, .connectionState, .upstreamState, .handshake, .tlsVersion, .retryReason, .ejectionReason,
            .upstreamBound,
            .authOutcome, .limitOutcome, .refreshResult, .refreshSource, .overload, .redisNode:
            true
        case .method, .authReason, .result, .algorithm, .phase, .limitSource, .redisCommand, .redisResult, .redisRedirect, .filterAction,
            .filterFailure, .cacheResult, .contentCoding, .compressionSkip, .http2End, .streamKind, .streamEnd, .checkKind, .mirrorOutcome,
            .refusalCode:
            false
        }
    }
}
