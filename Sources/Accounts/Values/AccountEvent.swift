package import Wire

/// An entry of the audit log as services are told of it. It has no personal data, so that nothing of a deleted account is left in it.
package struct AccountEvent: Sendable, Equatable {
    /// The change that it tells of. The words never change.
    package enum Kind: String, CaseIterable, Sendable {
        case created = "account.created"
        case verified = "account.verified"
        case merged = "account.merged"
        case deleted = "account.deleted"
        case reopened = "account.reopened"
        case erased = "account.erased"
        case banned = "account.banned"
        case unbanned = "account.unbanned"
        case sessionCreated = "session.created"
        case sessionReuse = "session.reuse"
        case passwordChanged = "password.changed"
        case emailChanged = "email.changed"
        case phoneChanged = "phone.changed"
        case identityLinked = "identity.linked"
        case identityUnlinked = "identity.unlinked"
        case tierChanged = "tier.changed"
        case purchaseChanged = "purchase.changed"
    }

    /// Its place in the order of all entries of the log, in which those of one account stand as they were committed.
    package let position: Int64
    package let kind: Kind
    package let id: UUID
    package let at: WallTime
    package let account: UUID
    package let session: UUID?
    /// `AuditEvent.detail`.
    package let detail: String?
    /// Whether a session was opened on a device that the account had never been used on.
    package let isNewDevice: Bool
    /// Whether the account's email was proven by its owner, who had not opened it.
    private let isTakenOver: Bool

    /// nil for an entry of which services are not told.
    package init?(_ entry: AuditEvent, position: Int64, isNewDevice: Bool = false) {
        guard let kind = Kind(entry.kind), let account = entry.user else { return nil }
        self.position = position
        self.kind = kind
        id = entry.id
        at = entry.at
        self.account = account
        session = entry.session
        detail = entry.detail
        self.isNewDevice = isNewDevice
        isTakenOver = entry.kind == .accountTaken
    }
}

extension AccountEvent.Kind {
    /// The one table of what services are told of; nil for the rest of the log.
    package init?(_ kind: AuditEvent.Kind) {
        switch kind {
        case .accountOpened: self = .created
        case .emailConfirmed, .accountTaken: self = .verified
        case .accountMerged: self = .merged
        case .accountClosed: self = .deleted
        case .accountReopened: self = .reopened
        case .accountDeleted: self = .erased
        case .accountBanned: self = .banned
        case .accountUnbanned: self = .unbanned
        case .signedIn: self = .sessionCreated
        case .refreshReuse: self = .sessionReuse
        case .passwordChanged, .passwordReset: self = .passwordChanged
        case .emailChanged, .emailReleased: self = .emailChanged
        case .phoneChanged: self = .phoneChanged
        case .identityLinked: self = .identityLinked
        case .identityUnlinked: self = .identityUnlinked
        case .tierChanged: self = .tierChanged
        case .purchaseChanged: self = .purchaseChanged
        case .sessionEnded, .refreshAhead, .actorGranted, .actorRevoked, .attributesChanged, .apiKeyCreated, .apiKeyRevoked,
            .passkeyCounterFell, .factorAdded, .factorRemoved, .backupCodesMade, .backupCodeUsed, .deviceKeyBound,
            .deviceKeyRefused:
            return nil
        }
    }
}

extension AccountEvent {
    /// The body that subscribers get.
    package var body: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.field("type", kind.rawValue)
        json.field("timestamp", ISO8601.text(at))
        json.key("data")
        writeData(into: &json)
        json.endObject()
        return json.finish().readable.array
    }

    /// The object `data` of the body.
    package var data: [UInt8] {
        var json = JSONWriter()
        writeData(into: &json)
        return json.finish().readable.array
    }

    private func writeData(into json: inout JSONWriter) {
        json.beginObject()
        json.field("account", account.text)
        json.optional("session", session?.text)
        switch kind {
        case .created: json.optional("by", detail.map { $0.hasSuffix(", anew") ? String($0.dropLast(6)) : $0 })
        case .verified: if isTakenOver { json.field("taken_over", true) }
        case .merged: json.optional("merged_from", detail)
        case .banned: json.optional("until", end)
        case .deleted: json.optional("erased_at", end)
        case .sessionCreated:
            json.optional("by", detail)
            json.field("new_device", isNewDevice)
        case .identityLinked, .identityUnlinked: json.optional("provider", detail)
        case .tierChanged:
            json.key("tier")
            if let detail { json.string(detail) } else { json.null() }
        case .purchaseChanged: writePurchase(into: &json)
        case .reopened, .erased, .unbanned, .sessionReuse, .passwordChanged, .emailChanged, .phoneChanged: break
        }
        json.endObject()
    }

    /// The time in a detail that says until when; nil for good, or at once.
    private var end: String? { detail.flatMap { $0.hasPrefix("until ") ? String($0.dropFirst(6)) : nil } }

    /// The parts of `PurchaseChange`, as far as they can be told apart.
    private func writePurchase(into json: inout JSONWriter) {
        guard let change = detail.flatMap(PurchaseChange.init) else { return }
        json.field("purchase", change.purchase)
        json.field("source", change.source)
        json.field("product", change.product)
        json.field("state", change.state)
        json.optional("until", change.until)
        json.field("owned", change.isOwned)
    }
}

/// A change of a purchase, as the audit log has it.
package struct PurchaseChange: Equatable, Sendable {
    package let purchase, source, product, state: String
    package let until: String?
    /// False if it went to another account.
    package let isOwned: Bool

    /// The text of the log.
    package var detail: String {
        "\(source) \(product) \(state)\(until.map { " until \($0)" } ?? ""), \(purchase)\(isOwned ? "" : Self.lost)"
    }
    private static let lost = ", no longer of this account"

    package init(_ purchase: UUID, source: String, product: String, state: String, until: WallTime?, isOwned: Bool) {
        (self.purchase, self.source, self.product, self.state) = (purchase.text, source, product, state)
        self.until = until.map { ISO8601.text($0) }
        self.isOwned = isOwned
    }

    /// nil for a text that `detail` has not made. The product may have spaces and commas.
    package init?(_ detail: String) {
        isOwned = !detail.hasSuffix(Self.lost)
        var words = (isOwned ? detail : String(detail.dropLast(Self.lost.count))).split(separator: " ", omittingEmptySubsequences: false)
            .map(String.init)
        guard words.count >= 4, let id = words.popLast(), words[words.count - 1].hasSuffix(",") else { return nil }
        words[words.count - 1].removeLast()
        purchase = id
        if words.count >= 5, words[words.count - 2] == "until" {
            until = words[words.count - 1]
            words.removeLast(2)
        } else {
            until = nil
        }
        state = words.removeLast()
        source = words.removeFirst()
        product = words.joined(separator: " ")
    }
}
