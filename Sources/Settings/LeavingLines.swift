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

/// `TOLLGATE_APPLE_KEY`: the key by which tokens of Sign in with Apple are exchanged and revoked.
package struct AppleKeyDeclaration: Hashable, Sendable {
    package var team = ""
    package var keyID = ""
    package var key: NamedFile?
    /// The apps whose codes are exchanged.
    package var clientIDs: [String] = []
    package var url = "https://appleid.apple.com"
    package var origin = Origin.builtIn
}

extension AppleKeyDeclaration: OptionTarget {
    package static let family = Setting.appleKey
    package var lineName: String { "apple-key" }
    package static let bare = Self()

    package static let options = table {
        LineOption("team", \.team, .text, values: "an id", "the team's id, which issues the key")
        LineOption("key-id", \.keyID, .text, values: "an id", "the id of the key")
        LineOption("key-file", ifSet: \.key, .file, "a file", "the key (`.p8`) of Sign in with Apple")
        LineOption(
            "client-id", list: \.clientIDs, "com.example.app,com.example.web", "the apps whose codes are exchanged", TypedText.item)
        LineOption("url", \.url, .url, values: "https://appleid.apple.com", "Apple's server, for tests")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("team=T key-id=K key-file=FILE client-id=com.example.app")
        line.read(into: &self)
        line.require("team", "team=T, the team's id at Apple")
        line.require("key-id", "key-id=K, the id of the key")
        line.require("key-file", "key-file=FILE, the key of Sign in with Apple")
        line.require("client-id", "client-id=com.example.app, the apps whose codes are exchanged")
    }
}
