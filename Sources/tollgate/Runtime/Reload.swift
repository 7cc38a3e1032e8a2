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

/// A prepared change. Nothing but `open` can fail.
struct Commit {
    /// Runs once every part is prepared, before the first `apply`: opens what stays open also if another part cannot be opened.
    var open: () throws -> Void = {}
    /// Runs before the workers are posted the configuration: they may ask for all that it names at once.
    let apply: () -> Void
    /// Runs once they have been posted it.
    var published: () -> Void = {}
}

extension [any Part] {
    /// Prepares every part, and opens what the changes need once none is refused.
    func prepare(_ next: NextConfiguration) throws -> [Commit] {
        let commits = try map { try $0.prepare(next) }
        for commit in commits { try commit.open() }
        return commits
    }
}

/// A part whose change needs no preparation.
struct PlainPart: Part {
    let commit: (NextConfiguration) -> Commit

    func prepare(_ next: NextConfiguration) -> Commit { commit(next) }
}
