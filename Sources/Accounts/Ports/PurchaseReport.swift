package import Wire

/// The outcome of a claim, a notification, a fence or a question to a store: for the metrics, and for the log where the operator should
/// look. It never holds a body, a token or an account's address.
package enum PurchaseReport: Sendable, Equatable {
    /// The outcome of a claim. `reason` is that of the `StorefrontFault`, or the store's id of an unknown product.
    case claim(PurchaseSource, ClaimVerdict, reason: String? = nil)
    /// A notification was kept, or had been kept before. The lag is from the store's time to the commit, and counts as none
    /// where the store's clock is ahead. `product` is the store's id of an unknown product.
    case event(PurchaseSource, type: String, EventVerdict, lagMilliseconds: Int64, product: String? = nil)
    /// A notification was not kept. The reasons are those of `StorefrontFault`, or say that the store of accounts is away.
    case refusedEvent(PurchaseSource, EventRefusal, reason: String)
    /// A change was announced to the gateways: how long they took to acknowledge it, and whether all did in time.
    case fence(milliseconds: Int64, isEverywhere: Bool)
    /// The reconciliation asked a store for purchases: how many it answered for, and why it stopped, if it did.
    case reconciled(PurchaseSource, asked: Int, failed: Int, reason: String? = nil)

    /// When the newest event of each source came, on whatever gateway.
    case newestEvents([PurchaseSource: WallTime])

    /// The verdict over a claim, as metrics have it.
    package enum ClaimVerdict: String, CaseIterable, Sendable {
        case bound
        /// Bound, but no product line has its product, so that it gives nothing.
        case unknownProduct = "unknown-product"
        case otherAccount = "other-account"
        /// The claiming account was deleted meanwhile.
        case noAccount = "no-account"
        /// Not authentic, malformed, or of a foreign app.
        case invalid
        case environment
        /// The store, or the store of accounts, cannot be asked.
        case unavailable

        /// The verdict for a storefront's fault.
        package init(_ fault: StorefrontFault) {
            switch fault {
            case .notAuthentic, .malformed, .foreign: self = .invalid
            case .environmentRefused: self = .environment
            case .unavailable: self = .unavailable
            }
        }
    }

    /// The verdict over a notification that is kept, as metrics have it.
    package enum EventVerdict: Sendable, Equatable {
        case kept(StoreEvent.Verdict)
        /// One with its id was kept before.
        case repeated
    }

    /// Why a notification is not kept, as metrics have it.
    package enum EventRefusal: String, CaseIterable, Sendable {
        case notAuthentic = "not-authentic"
        case malformed, foreign, environment
        /// The store, or the store of accounts, cannot be asked, so the notification comes again.
        case unavailable

        /// The refusal for a storefront's fault.
        package init(_ fault: StorefrontFault) {
            switch fault {
            case .notAuthentic: self = .notAuthentic
            case .malformed: self = .malformed
            case .foreign: self = .foreign
            case .environmentRefused: self = .environment
            case .unavailable: self = .unavailable
            }
        }
    }
}

extension PurchaseReport.EventVerdict {
    /// As metrics have it.
    package var name: String {
        switch self {
        case .kept(let verdict): verdict.rawValue
        case .repeated: "repeated"
        }
    }
}

extension StorefrontFault {
    /// The short word for log and metrics.
    package var reason: String {
        switch self {
        case .notAuthentic(let reason), .malformed(let reason), .foreign(let reason), .unavailable(let reason, _, _): reason
        case .environmentRefused: "environment"
        }
    }
}
