package import Wire

extension Session {
    /// The device as people are shown it: the name that the app sends, else a short reading of its `User-Agent`; nil without either.
    package var deviceLabel: String? { deviceName ?? device.map(DeviceLabel.reading) }

    /// When it was opened, refreshed, or its access token last seen by a gateway.
    package var usedAt: WallTime { max(lastUsedAt, seenAt ?? lastUsedAt) }
}

/// A device from which an account was signed in.
package struct KnownDevice: Sendable, Equatable {
    /// `Session.deviceLabel`; empty for sessions of which nothing is known.
    package let label: String
    package let firstSeenAt: WallTime
    package let lastSeenAt: WallTime

    /// How many of an account are remembered: those that were seen last.
    package static let most = 100

    package init(label: String, firstSeenAt: WallTime, lastSeenAt: WallTime) {
        self.label = label
        self.firstSeenAt = firstSeenAt
        self.lastSeenAt = lastSeenAt
    }
}

/// Short readings of `User-Agent`, such as `Chrome on Windows`, `Passages on iPhone` for an app, or `iPhone` if it says no more. Versions are
/// left out: a device that is updated is no new one.
enum DeviceLabel {
    /// In the order in which they are looked for: browsers also name those that they are like.
    private static let browsers = [
        ("Edg", "Edge"), ("OPR/", "Opera"), ("SamsungBrowser", "Samsung Internet"), ("Firefox", "Firefox"), ("FxiOS", "Firefox"),
        ("Chrome/", "Chrome"), ("CriOS", "Chrome"), ("Safari/", "Safari"),
    ]
    private static let systems = [
        ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("okhttp", "Android"), ("Windows", "Windows"),
        ("CrOS", "Chromebook"), ("Macintosh", "Mac"), ("Darwin", "an Apple device"), ("Linux", "Linux"),
    ]
    /// First words that name no app.
    private static let libraries: Set<String> = ["Mozilla", "Dalvik", "okhttp", "CFNetwork"]

    static func reading(_ userAgent: String) -> String {
        let first = String(userAgent.prefix { $0 != " " && $0 != "/" }.prefix(64))
        let program = name(in: browsers, of: userAgent) ?? (libraries.contains(first) || first.isEmpty ? nil : first)
        guard let system = name(in: systems, of: userAgent) else { return program ?? first }
        return program.map { "\($0) on \(system)" } ?? system
    }

    private static func name(in table: [(word: String, name: String)], of userAgent: String) -> String? {
        table.first { userAgent.contains($0.word) }?.name
    }
}
