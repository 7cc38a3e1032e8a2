internal import Wire

/// A configuration that is about to come into force, and when.
struct NextConfiguration {
    let configuration: GatewayConfiguration
    let moment: Moment
}

/// A part of the running gateway that a reload changes. A reload prepares every part before it applies the first change, so a
/// configuration comes into force whole or not at all. Main thread.
protocol Part {
    /// Prepares the change to `next`. The part serves as before until the commit is applied. Throws an error whose description tells the
    /// operator what is wrong.
    func prepare(_ next: NextConfiguration) throws -> Commit
}

/// A prepared change, which cannot fail.
struct Commit {
    /// Runs before the workers are posted the configuration: they may ask for all that it names at once.
    let apply: () -> Void
    /// Runs once they have been posted it.
    let published: () -> Void

    init(apply: @escaping () -> Void, published: @escaping () -> Void = {}) {
        self.apply = apply
        self.published = published
    }
}

/// A part whose change needs no preparation.
struct PlainPart: Part {
    let commit: (NextConfiguration) -> Commit

    func prepare(_ next: NextConfiguration) -> Commit { commit(next) }
}
