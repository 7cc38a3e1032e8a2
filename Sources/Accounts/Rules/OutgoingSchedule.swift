internal import Wire

/// When something that a gateway does elsewhere is tried again, and when it is given up. Pure.
package struct OutgoingSchedule: Sendable {
    /// Seconds between one try and the next, by their number; the last pause repeats.
    package let pauses: [Int64]
    /// After so many seconds it is given up.
    package let lastSeconds: Int64

    package static let events = Self(pauses: [3, 15, 60, 300, 900, 3_600], lastSeconds: 3 * 86_400)
    /// The pause is the time that a gateway has for a notice before another one may send it.
    package static let notices = Self(pauses: [600], lastSeconds: Notice.keptSeconds)
    /// 1, 2, 4 … minutes, 6 hours at most.
    package static let appleTokens = Self(pauses: (0..<9).map { 60 << $0 } + [6 * 3_600], lastSeconds: AppleToken.revocationSeconds)

    /// `failures`: how often it has failed by `now`. nil: it is given up.
    func next(failures: Int64, failedAt first: WallTime, now: WallTime) -> WallTime? {
        let end = first.advanced(seconds: lastSeconds)
        guard now < end else { return nil }
        let pause = pauses[Int(min(max(failures - 1, 0), Int64(pauses.count - 1)))]
        return min(now.advanced(seconds: pause), end)
    }
}
