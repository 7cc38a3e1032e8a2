internal import Gate

/// The policies that were in force before: kept until no worker uses them any more, so that the control plane frees them. Of ten thousand
/// routes that takes milliseconds, in which a worker would serve no request.
struct FormerPolicies {
    private var kept: [Policy] = []

    mutating func add(_ policy: Policy) { kept.append(policy) }

    /// Removes and returns those that are used nowhere else.
    mutating func takeUnused() -> [Policy] {
        var unused: [Policy] = []
        for index in kept.indices.reversed() where isKnownUniquelyReferenced(&kept[index]) { unused.append(kept.remove(at: index)) }
        return unused
    }
}
