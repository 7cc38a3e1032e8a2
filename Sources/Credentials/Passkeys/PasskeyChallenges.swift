package import Wire

/// The exchange that a challenge is for.
package enum PasskeyPurpose: String, Sendable, CaseIterable {
    case registration, signUp, authentication
}

/// An open challenge.
package struct PasskeyChallenge: Sendable, Equatable {
    package let subject: String
    package let endsAt: WallTime
}

/// The challenges of passkeys: sealed, so that a gateway keeps none and another can open them. Any thread.
package struct PasskeyChallenges: Sendable {
    package static let lifetimeSeconds: Int64 = 300
    /// Subjects are filled up with NULs to a multiple of this, so that a challenge's length tells little of its subject.
    private static let step = 64

    private let secret: [UInt8]

    /// `secret` is the refresh token secret, from which the keys are derived.
    package init(secret: [UInt8]) { self.secret = secret }

    /// That of the day, as anyone may ask for many challenges; `nearby` the day before or after.
    private func box(_ now: WallTime, nearby days: Int64 = 0) -> SealedBox {
        SealedBox(secret: secret, label: "tollgate passkey challenge \(now.seconds / 86_400 + days)")
    }

    /// A new challenge for `subject`, a text without NUL such as an account's id.
    package func issue(
        _ purpose: PasskeyPurpose, subject: String, now: WallTime, random: RandomBytes = SecureRandom.bytes
    ) -> [UInt8] {
        let end = UInt64(bitPattern: now.advanced(seconds: Self.lifetimeSeconds).microseconds)
        var content = (0..<8).map { UInt8(truncatingIfNeeded: end >> (56 - 8 * UInt64($0))) } + Array(subject.utf8)
        content += [UInt8](repeating: 0, count: Self.step - subject.utf8.count % Self.step)
        return box(now).seal(content, as: purpose.rawValue, random: random)
    }

    /// The content of `challenge`; nil if it is for another purpose, of another secret, damaged, or has ended.
    package func open(_ challenge: [UInt8], purpose: PasskeyPurpose, now: WallTime) -> PasskeyChallenge? {
        let opened = [0, -1, 1].lazy.compactMap { box(now, nearby: $0).open(challenge, as: purpose.rawValue) }
        guard let content = opened.first else { return nil }
        var reader = CBORReader(content)
        guard let end = reader.number(8).map({ WallTime(microseconds: Int64(bitPattern: $0)) }), now < end else { return nil }
        return PasskeyChallenge(subject: String(decoding: content.dropFirst(8).prefix { $0 != 0 }, as: UTF8.self), endsAt: end)
    }
}
