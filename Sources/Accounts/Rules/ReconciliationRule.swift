internal import Wire

/// Which purchases a store is asked for without its having said anything: those whose renewal is due and those in doubt. Pure.
///
/// Each purchase has moments at which it is due: shortly before its end, shortly after it, and once an hour while it is in doubt; once a
/// day where that lasts for more than three days, and no more after the 60 days for which stores try to collect a payment. They depend
/// on its id, so that purchases with one end are not asked for at once, and they are the same for every gateway.
enum ReconciliationRule {
    /// How far behind its end a purchase that renews is asked for, in seconds.
    static let afterSeconds: Int64 = 3 * 86_400
    /// How long before its end the first question may come, in seconds.
    static let beforeSeconds: Int64 = 600
    /// How long it is asked for while it is in doubt.
    static let doubtSeconds: Int64 = 60 * 86_400
    private static let (hour, day): (Int64, Int64) = (3_600, 86_400)

    /// Whether the store is to be asked at `now`; `asked` is the last time that it was.
    static func isDue(_ purchase: Purchase, asked: WallTime?, at now: WallTime) -> Bool {
        guard let moment = moment(of: purchase, at: now) else { return false }
        guard let asked else { return true }
        return asked.seconds < moment
    }

    /// The newest moment, in seconds, that is not after `now`; nil if there is none.
    private static func moment(of purchase: Purchase, at now: WallTime) -> Int64? {
        let (now, jitter) = (now.seconds, Int64(purchase.id.low % UInt64(hour)))
        let hourly = now - (now - jitter) % hour
        switch purchase.state {
        case .grace, .retry:
            let age = now - (purchase.status.until ?? purchase.status.at).seconds
            return age < afterSeconds ? hourly : age < doubtSeconds ? now - (now - jitter) % day : nil
        case .active, .paused, .expired: break
        case .refunded, .revoked, .superseded: return nil
        }
        guard purchase.status.renews, let end = purchase.status.until?.seconds, now < end + afterSeconds else { return nil }
        // Five minutes for those with one end before it, one minute after it.
        let (before, after) = (end - beforeSeconds + jitter / 12, end + jitter / 60)
        if now < before { return nil }
        return now < after ? before : max(after, hourly)
    }
}
