/// Metrics counted once per process. A new one is a case, its row in `description`, and its samples in `Exposition` or
/// beside its values.
enum ProcessFamily: CaseIterable {
    case buildInfo, configReloads, lastConfigReload
    case keySetFetches, keySetAge, keySetKeys
    case clockSkew
    case certificateExpiry, certificateLate
    case busLag, busConnected, busMessages
    case tierLookups
    case limitEvictions, refusedAttempts
    case purchases, storeEvents, storeEventLag, storeEventNewest, purchaseFence, incompleteFences
    case merges, splitGuards, appRequests
    case events, eventsPending, outgoing, outgoingWaiting, outgoingOldest, signUpHook
    case overloadActive, overloadLimit
    case spansExported, spansDropped, spansQueued
    case maintenance, apiKeys

    var description: ProcessFamilyDescription {
        switch self {
        case .buildInfo:
            .init("build_info", "gauge", ["version", "commit", "swift"], "Which build is running; always 1.")
        case .configReloads:
            .init("config_reloads_total", "counter", ["result"], "Configurations read, at start and for reloads.")
        case .lastConfigReload:
            .init(
                "config_last_reload_success_timestamp_seconds", "gauge", [],
                "When the configuration in force was read, in seconds since 1970.")
        case .keySetFetches:
            .init("jwks_fetches_total", "counter", ["issuer", "result"], "Times that a key set was asked for.")
        case .keySetAge: .init("jwks_age_seconds", "gauge", ["issuer"], "Time since a key set was last fetched well.")
        case .keySetKeys: .init("jwks_keys", "gauge", ["issuer"], "Keys in force.")
        case .clockSkew:
            .init(
                "clock_skew_seconds", "gauge", ["source"],
                "How far this machine's clock is ahead of the clock of the database, or of a key set's or an upstream's server.")
        case .certificateExpiry:
            .init(
                "tls_certificate_expiry_timestamp_seconds", "gauge", ["name"],
                "When a certificate of the TLS listeners expires, in seconds since 1970.")
        case .certificateLate:
            .init(
                "tls_certificate_late", "gauge", ["name"],
                "1 while a certificate that an authority issues (`TOLLGATE_ACME`) is missing, or less than a third of its lifetime is left."
            )
        case .busLag:
            .init(
                "bus_lag_seconds", "histogram", [],
                "Time from a change in the accounts, wherever it was made, until it counts here.")
        case .busConnected:
            .init(
                "bus_connected", "gauge", ["carrier"],
                "1 while the change bus is connected, 0 while polling.")
        case .busMessages:
            .init(
                "bus_messages_total", "counter", ["result"],
                "Hints heard on the bus; refused ones did not come from a gateway that knows the secret.")
        case .tierLookups:
            .init("tier_lookups_total", "counter", ["issuer", "result"], "Times that an outside issuer's tier server was asked.")
        case .purchases:
            .init("purchases_total", "counter", ["source", "verdict"], "Purchases that apps have claimed for an account.")
        case .storeEvents:
            .init(
                "store_events_total", "counter", ["source", "type", "verdict"],
                "Notifications of stores. The type is without its subtype; `unread` for one that was refused.")
        case .storeEventLag:
            .init(
                "store_event_lag_seconds", "histogram", [],
                "Time from an event, by the clock of the store, until its effect was committed.")
        case .storeEventNewest:
            .init(
                "store_event_newest_timestamp_seconds", "gauge", ["source"],
                "When the newest notification of a store was kept, in seconds since 1970; the gateway that asks the stores knows of all.")
        case .purchaseFence:
            .init(
                "purchase_fence_seconds", "histogram", [],
                "Time that a purchase waited until every gateway had acknowledged its tier, at most a second.")
        case .incompleteFences:
            .init(
                "purchase_fence_incomplete_total", "counter", [],
                "Purchases that were answered before every gateway had acknowledged them.")
        case .splitGuards:
            .init(
                "split_guards_total", "counter", ["route"],
                "Times that this gateway took the share of a split back to 0 because requests failed there (split-guard=).")
        case .appRequests:
            .init(
                "app_requests_total", "counter", ["gate", "version"],
                "Requests on routes with app=, as of the last minute: the 50 most frequent versions since the start, `none` without a version, and `other` for the rest."
            )
        case .merges:
            .init(
                "account_merges_total", "counter", ["outcome"],
                "Guests that were merged into accounts, and what came of the announcements: `untaken` if no service took one in 90 days.")
        case .events:
            .init(
                "events_total", "counter", ["subscriber", "result"],
                "Events of accounts that were sent to a subscriber: they arrived, failed and are tried again, or were parked.")
        case .eventsPending:
            .init(
                "events_pending", "gauge", ["subscriber", "state"],
                "Accounts of which an event waits for its next try, parked events, and entries of the log that were not looked at yet; at the gateway that sends."
            )
        case .outgoing:
            .init(
                "outgoing_total", "counter", ["queue", "result"],
                "Apple's tokens that were exchanged, revoked or given up, and notices to users that were given up.")
        case .outgoingWaiting:
            .init(
                "outgoing_waiting", "gauge", ["queue"],
                "Tokens that Apple is to exchange or revoke, and notices that are to be sent to users, at all gateways.")
        case .outgoingOldest:
            .init(
                "outgoing_oldest_timestamp_seconds", "gauge", ["queue"],
                "Since when the oldest of them waits, in seconds since 1970; not there while none waits.")
        case .signUpHook:
            .init("signup_hook_total", "counter", ["result"], "Sign-ups that the hook was asked about.")
        case .overloadActive:
            .init("overload_active", "gauge", ["reason"], "1 while a bound of the gateway makes it shed load, and for 5 s after.")
        case .overloadLimit:
            .init(
                "overload_limit", "gauge", ["reason"],
                "The bounds in force: client connections, requests under way, those of them to own endpoints, and bytes of heads and bodies."
            )
        case .spansExported: .init("spans_exported_total", "counter", [], "Spans that the collector of traces has taken.")
        case .spansDropped:
            .init(
                "spans_dropped_total", "counter", ["reason"],
                "Spans lost: a worker's buffer or the queue was full, the collector refused them or was away for too long, or the gateway ended."
            )
        case .spansQueued: .init("spans_queued", "gauge", [], "Spans that wait for the collector, those of the batch under way included.")
        case .maintenance:
            .init(
                "maintenance", "gauge", ["scope"],
                "1 while this is closed for maintenance: `all`, `contracts`, or `route/NAME` of a route of the configuration.")
        case .apiKeys: .init("api_keys", "gauge", [], "API keys that are neither revoked nor past their end.")
        case .limitEvictions:
            .init(
                "ratelimit_evictions_total", "counter", [],
                "Counts of limits evicted from memory before they were full again, each worth a burst at most to its owner.")
        case .refusedAttempts:
            .init(
                "attempts_refused_total", "counter", ["bucket"],
                "Sign-ins, codes, messages and new accounts for which a bucket had no room. A sign-in may have been let in by the next one."
            )
        }
    }
}

/// Name, Prometheus type and labels of a family.
struct ProcessFamilyDescription {
    let name: String
    let type: StaticString
    let labels: [String]
    let help: String

    init(_ name: String, _ type: StaticString, _ labels: [String], _ help: String) {
        self.name = "tollgate_" + name
        self.type = type
        self.labels = labels
        self.help = help
    }
}

extension ExpositionWriter {
    /// Introduces a family; returns its name, for its samples.
    mutating func family(_ family: ProcessFamily) -> String {
        let description = family.description
        self.family(description.name, type: description.type, help: description.help)
        return description.name
    }
}
