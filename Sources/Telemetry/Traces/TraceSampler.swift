/// Head sampling: whether a request is recorded, decided once when its trace begins (`OTEL_TRACES_SAMPLER`).
package struct TraceSampler: Equatable, Sendable {
    /// Traces whose low 64 bits, halved, are below this are recorded: the share × 2^63.
    private let bound: UInt64
    /// Whether a trusted caller's decision counts before the share.
    private let followsParent: Bool

    /// Records this share of the traces, 0 to 1.
    package init(share: Double, followsParent: Bool) {
        bound = share >= 1 ? 1 << 63 : UInt64(max(0, share) * 0x1p63)
        self.followsParent = followsParent
    }

    /// The values of `OTEL_TRACES_SAMPLER`.
    package static let names = [
        "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
    ]

    /// nil for an unknown name. `share` is `OTEL_TRACES_SAMPLER_ARG`, which only ratios read.
    package init?(name: String, share: Double) {
        switch name {
        case "always_on": self.init(share: 1, followsParent: false)
        case "always_off": self.init(share: 0, followsParent: false)
        case "traceidratio": self.init(share: share, followsParent: false)
        case "parentbased_always_on": self.init(share: 1, followsParent: true)
        case "parentbased_always_off": self.init(share: 0, followsParent: true)
        case "parentbased_traceidratio": self.init(share: share, followsParent: true)
        default: return nil
        }
    }

    /// Whether it never records anything.
    package var isOff: Bool { bound == 0 && !followsParent }

    /// Whether to record the trace of these low 64 bits. `parent` is the decision of a trusted caller; nil for a new trace. By the trace
    /// id, so that every program with the same share records the same traces.
    @inline(__always)
    package func samples(traceLow: UInt64, parent: Bool?) -> Bool {
        if followsParent, let parent { return parent }
        return traceLow >> 1 < bound
    }
}
