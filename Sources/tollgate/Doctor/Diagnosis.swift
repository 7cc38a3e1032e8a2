/// A finding of `tollgate doctor`.
struct Diagnosis: Equatable, Sendable {
    /// Ascending; any `fail` makes the command fail.
    enum Level: String, CaseIterable, Sendable { case ok, warn, fail }

    let level: Level
    /// The part of the deployment, such as `redis 127.0.0.1:6379`.
    let subject: String
    /// A sentence: what is there, and unless it is ok what would be right.
    let text: String

    static func ok(_ subject: String, _ text: String) -> Self { Self(level: .ok, subject: subject, text: text) }
    static func warn(_ subject: String, _ text: String) -> Self { Self(level: .warn, subject: subject, text: text) }
    static func fail(_ subject: String, _ text: String) -> Self { Self(level: .fail, subject: subject, text: text) }
}

/// Another machine's clock, as one probe read it.
struct ClockReading: Equatable, Sendable {
    /// Whose it is.
    let source: String
    /// Theirs minus ours, in seconds.
    let offset: Double
    /// Half of the round trip, and the resolution of the answer.
    let uncertainty: Double

    /// The seconds that it differs at least.
    var difference: Double { max(0, offset.magnitude - uncertainty) }
}

/// The findings of a probe, and the clocks that it read.
struct ProbeReport: Equatable, Sendable {
    var findings: [Diagnosis] = []
    var clocks: [ClockReading] = []

    init(_ findings: [Diagnosis] = [], clocks: [ClockReading] = []) {
        self.findings = findings
        self.clocks = clocks
    }
}
