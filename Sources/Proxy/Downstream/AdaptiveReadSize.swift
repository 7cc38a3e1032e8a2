/// How many bytes are received at once for one body: few while nobody knows how fast the other side takes them, more and
/// more while it takes all of them, few again as soon as some had to be kept.
///
/// Large pieces cost the kernel a third of what small ones do; small ones bound what a slow reader makes us hold.
struct AdaptiveReadSize: Equatable, Sendable {
    static let least = 64 * 1_024
    static let most = 512 * 1_024

    private(set) var bytes = least

    /// After a piece of `count` bytes; `wasKept`: not all of it could be passed on.
    mutating func received(_ count: Int, wasKept: Bool) {
        if wasKept {
            bytes = Self.least
        } else if count >= bytes {
            bytes = min(bytes * 2, Self.most)
        }
    }
}
