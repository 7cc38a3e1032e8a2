/// Bounds on one HTTP/2 connection that the operator sets.
package struct HTTP2Bounds: Sendable, Equatable {
    /// Streams under way at once: SETTINGS_MAX_CONCURRENT_STREAMS.
    package var streams: Int
    /// The greatest window of one stream's content, in bytes; at least 64 KiB.
    package var streamWindow: Int
    /// The window of the connection, and as much content of all its streams may wait, in bytes; at least 64 KiB.
    package var connectionWindow: Int

    package init(streams: Int = 100, streamWindow: Int = 512 * 1_024, connectionWindow: Int = 1 << 20) {
        self.streams = streams
        self.streamWindow = streamWindow
        self.connectionWindow = connectionWindow
    }
}
