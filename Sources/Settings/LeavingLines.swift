internal import Gate

/// `TOLLGATE_DELETION`: when users may delete their accounts, and when these are erased.
package struct DeletionDeclaration: Hashable, Sendable {
    /// How long a closed account is kept, in seconds.
    package var graceSeconds: Int64 = 0
    /// How old the sign-in of a user may be who deletes an account, in seconds.
    package var recentSeconds: Int64 = 600
    package var origin = Origin.builtIn
}

extension DeletionDeclaration: OptionTarget {
    package static let family = Setting.deletion
    package var lineName: String { "deletion" }
    package static let bare = Self()

    package static let options = table {
        LineOption(
            "grace", \.graceSeconds, .duration(0...31_536_000_000, unit: 1_000), values: "0s",
            "the time for which a closed account is kept, and a sign-in opens it again; up to a year")
        LineOption(
            "recent", \.recentSeconds, .duration(60_000...86_400_000, unit: 1_000), values: "10m",
            "how old the sign-in of a user may be who deletes an account, 1 minute to a day")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("grace=14d recent=10m")
        line.read(into: &self)
    }
}
