internal import Accounts
internal import Acme
internal import Admin
internal import Credentials
internal import Gate
internal import Settings
internal import Wire

/// The judgements of `tollgate doctor` about the stores of apps: facts in, findings out.
enum StoreJudgements {
    private static let silentSeconds: Int64 = 3 * 86_400

    /// `answer`: whether the store was asked with a key, and accepted it.
    static func credentials(_ source: PurchaseSource, _ answer: Result<Bool, StorefrontFault>?) -> Diagnosis {
        let subject = "store \(source.rawValue)"
        switch (answer, source) {
        case (.success(true), _): return .ok(subject, "answers and accepts the key")
        case (.success(false), .revenuecat): return .ok(subject, "sends notifications; the gateway does not ask it")
        case (.success(false), _):
            return .warn(
                subject,
                "has no key in \(source.setting), so it is not asked for purchases whose notification was lost: give the line its key")
        case (.failure(.unavailable(let reason, _, isKeyRefused: true)), _):
            return .fail(subject, "cannot be asked (\(reason)): correct the key in \(source.setting), or its rights at the store")
        case (.failure(let fault), _):
            return .fail(subject, "cannot be asked (\(fault.reason)): see whether this machine reaches the store")
        case (nil, _): return .fail(subject, "cannot be asked: this process has no descriptor left")
        }
    }

    /// A subscriber of events, as the accounts know it; nil: it was never sent any.
    static func events(_ name: String, _ known: Subscription?) -> Diagnosis {
        let subject = "events of \(name)"
        guard let known else { return .warn(subject, "were never sent: is a gateway running with this line?") }
        let reason = known.failure.map { " (\($0))" } ?? ""
        if known.parked > 0 {
            return .fail(
                subject,
                "\(counted(Int(known.parked), "event")) did not arrive in three days\(reason): mend the service, then `tollgate events replay`"
            )
        }
        guard known.waiting > 0 else { return .ok(subject, "arrive") }
        let since = known.waitingSince.map { ", the first since \(ISO8601.text($0))" } ?? ""
        return .warn(subject, "\(counted(Int(known.waiting), "event")) did not arrive yet\(since)\(reason)")
    }

    /// How long a notice or a token may wait before that is remarked on, in seconds.
    private static let outgoingSeconds: Int64 = 3_600

    /// nil where nothing waits and nothing is set up.
    static func outgoing(_ state: OutgoingState, _ settings: Configuration, now: WallTime) -> Diagnosis? {
        let (subject, isSet, advice) =
            switch state.queue {
            case .notices: ("notices", !settings.notices.isEmpty, "see whether the mail server takes mails")
            case .appleTokens:
                (
                    "Apple's tokens", settings.appleKey != nil,
                    settings.appleKey == nil
                        ? "set \(Setting.appleKey.name), by which they are revoked"
                        : "see whether this machine reaches Apple and the key is still Apple's"
                )
            }
        guard let since = state.since else { return isSet ? .ok(subject, "none waits") : nil }
        let waiting = "\(state.waiting) wait\(state.waiting == 1 ? "s" : ""), since \(ISO8601.text(since))"
        return now.seconds - since.seconds > outgoingSeconds ? .warn(subject, "\(waiting): \(advice)") : .ok(subject, waiting)
    }

    static func history(_ history: StoreHistory, _ stores: Stores, now: WallTime) -> [Diagnosis] {
        stores.storefronts.map { newest($0.source, history.newest[$0.source], now) } + products(history, stores)
    }

    private static func newest(_ source: PurchaseSource, _ time: WallTime?, _ now: WallTime) -> Diagnosis {
        let subject = "notifications of \(source.rawValue)"
        guard let time else {
            return .warn(subject, "have never come: enter the address …/notifications/\(source.rawValue) in the console of the store")
        }
        let text = "the newest came at \(ISO8601.text(time))"
        guard now.seconds - time.seconds > silentSeconds else { return .ok(subject, text) }
        return .warn(subject, "\(text): see whether the console of the store still has the right address")
    }

    /// Products of lines that were never bought, at stores where something was.
    private static func products(_ history: StoreHistory, _ stores: Stores) -> [Diagnosis] {
        stores.products.lines.compactMap { line in
            let unsold = stores.storefronts.map(\.source).flatMap { source in
                let bought = history.bought[source] ?? []
                return bought.isEmpty
                    ? [] : (line.products[source] ?? []).filter { !bought.contains($0) }.map { "\(source.rawValue)=\($0)" }
            }
            guard !unsold.isEmpty else { return nil }
            return .warn(
                "product \(line.name)", "was never bought as \(unsold.joined(separator: " ")): see whether the store's console spells it so"
            )
        }
    }

    /// Stores whose sandbox counts at a public address.
    static func sandbox(_ settings: Configuration) -> [Diagnosis] {
        guard settings.publicURL.hasPrefix("https://") else { return [] }
        return settings.stores.filter { $0.environments.contains(.sandbox) }.map { store in
            .warn(
                "sandbox",
                "\(store.variable) has environments= with sandbox, and TOLLGATE_PUBLIC_URL is https: testers get tiers without paying")
        }
    }

    /// The live switches that change routes.
    static func switches(_ switches: [LiveSwitch], _ rules: [RouteRule]) -> [Diagnosis] {
        let closed = ShownMaintenances(switches).maintenance.map { shown -> Diagnosis in
            var text = shown.extent
            if case .route(let name) = shown.scope, !rules.contains(where: { $0.name == name }) { text += "; no route has this name" }
            return .warn("maintenance of \(shown.scope.word)", text)
        }
        let shares = SplitShare.all(switches.filter { $0.name.hasPrefix(SplitShare.kind + "/") })
        let splits = rules.compactMap { rule -> Diagnosis? in
            guard let share = shares[rule.name], let shown = ShownSplit(rule, share) else { return nil }
            return Diagnosis(
                level: share.isGuards ? .warn : .ok, subject: "split of \(rule.name)", text: String(shown.sentence.dropLast(2)))
        }
        return closed + splits
    }

    /// A certificate that an authority issues.
    static func certificate(_ shown: ShownCertificate) -> Diagnosis {
        let subject = "certificate of \(shown.name)"
        let reason = shown.state.problem.map { "the last order failed (\($0))" } ?? "no order has failed: see whether a gateway runs"
        let next = "the next order is due at \(ISO8601.text(shown.dueAt)), or `tollgate certificates renew \(shown.name)` begins one"
        guard let certificate = shown.certificate else { return .fail(subject, "was not issued yet, \(reason); \(next)") }
        let until = ISO8601.text(certificate.expiresAt)
        switch shown.status {
        case "expired": return .fail(subject, "expired at \(until), \(reason); \(next)")
        case "late": return .fail(subject, "expires at \(until) and was not renewed in time, \(reason); \(next)")
        default: return .ok(subject, "is valid until \(until), and renewed from \(ISO8601.text(shown.dueAt)) on")
        }
    }
}
