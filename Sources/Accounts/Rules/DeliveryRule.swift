internal import Wire

/// When a delivery that has failed is tried again.
enum DeliveryRule {
    /// After so long it is parked.
    static let lastSeconds: Int64 = 3 * 86_400
    /// Between one failure and the next try, by their number.
    private static let pauses: [Int64] = [3, 15, 60, 300, 900, 3_600]
    /// After so many failures in a row of a subscriber that is away, an arrival means that it is back.
    static let manyFailures = 10

    /// `failures`: how often it has failed by `now`. nil: it is parked.
    static func next(failures: Int64, failedAt first: WallTime, now: WallTime) -> WallTime? {
        let end = first.advanced(seconds: lastSeconds)
        guard now < end else { return nil }
        let pause = pauses[Int(min(max(failures - 1, 0), Int64(pauses.count - 1)))]
        return min(now.advanced(seconds: pause), end)
    }
}
