/// Bytes received at once of one body: doubled while the other side takes all of them, reset as soon as some had to be queued.
///
/// Large reads cost the kernel a third per byte; small ones bound what is queued for a slow reader.
struct AdaptiveReadSize: Equatable, Sendable {
    static let least = 64 * 1_024
    static let most = 512 * 1_024

    private(set) var bytes = least

    /// `count` bytes were received; `wasKept`: some of them had to be queued.
    mutating func received(_ count: Int, wasKept: Bool) {
        if wasKept {
            bytes = Self.least
        } else if count >= bytes {
            bytes = min(bytes * 2, Self.most)
        }
    }
}
