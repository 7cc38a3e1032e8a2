package import Credentials
package import Wire

/// The origin of a subject: a provider of ID tokens, or an outside issuer by the name of its trust line. A line of each may have the same
/// name: their subjects are not the same persons.
package struct IdentitySource: Hashable, Sendable {
    /// As the store has it, which never changes: `apple`, `google`, `provider:NAME` for other providers, `NAME` for an issuer.
    package let stored: String
    /// Begins what is stored of a provider that no document names.
    package static let prefix = "provider:"

    package init(_ provider: Provider) {
        stored = (Provider.documented.contains(provider) ? "" : Self.prefix) + provider.rawValue
    }

    /// An outside issuer; nil for the name of a provider, whose identities are made by its ID tokens alone.
    package init?(trustLine name: String) {
        stored = name
        guard isIssuer else { return nil }
    }

    package init(stored: String) { self.stored = stored }

    /// The name of its line in lower case, for people and APIs.
    package var name: String { stored.hasPrefix(Self.prefix) ? String(stored.dropFirst(Self.prefix.count)) : stored }

    /// Whether it is an outside issuer. The change log has its identities, because gateways cache the tiers of its subjects.
    package var isIssuer: Bool { !Provider.documented.contains { $0.rawValue == stored } && !stored.hasPrefix(Self.prefix) }
}

/// The key of an identity: its source, and the source's name for the person. Subjects are compared byte by byte, as databases
/// do: Swift's strings are equal if they only look alike (Unicode's canonical equivalence).
package struct IdentityKey: Sendable {
    package let source: IdentitySource
    package let subject: String

    /// nil for an empty subject, one above 255 bytes, one with space around it, and one with control characters.
    package init?(_ source: IdentitySource, subject: String) {
        let clean: String?
        do throws(MalformedText) { clean = try PlainText.clean(subject, limit: 255) } catch { return nil }
        guard clean == subject else { return nil }
        self.init(source, stored: subject)
    }

    /// The id of an account as the subject of any outside issuer. No issuer has an empty name.
    package static func ofID(_ user: UUID) -> IdentityKey { IdentityKey(IdentitySource(stored: ""), stored: user.text) }

    /// A subject that a verified ID token or the store has; not checked again.
    package init(_ source: IdentitySource, stored subject: String) {
        self.source = source
        self.subject = subject
    }
}

extension IdentityKey: Hashable {
    package static func == (left: Self, right: Self) -> Bool {
        left.source == right.source && left.subject.utf8.elementsEqual(right.subject.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(source)
        for byte in subject.utf8 { hasher.combine(byte) }
    }
}
