import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Ends long answers whose token has expired or whose session has ended. All answers under way are looked at once a second,
/// and whenever sessions have ended: what passes through them is not.
extension Worker {
    /// What takes no longer is no stream, and comes to its own end. Nanoseconds.
    private static var shortest: UInt64 { 1_000_000_000 }

    mutating func endStreamsIfDue(_ scratch: inout Scratch) {
        guard now.wall.seconds != streamsCheckedAt else { return }
        streamsCheckedAt = now.wall.seconds
        endStreams(&scratch)
    }

    mutating func endStreams(_ scratch: inout Scratch) {
        guard exchanges.count > 0 else { return }
        for exchange in exchanges.indices where exchanges[exchange].state.answer != .none {
            guard let life = exchanges[exchange].life, let end = admission.end(of: life, at: now.wall.seconds),
                now.monotonic.nanoseconds(since: exchanges[exchange].record.startedAt) >= Self.shortest
            else { continue }
            endStream(exchange, end, &scratch)
        }
    }

    private mutating func endStream(_ exchange: ExchangeIndex, _ end: StreamLife.End, _ scratch: inout Scratch) {
        exchanges[exchange].record.error = end.text
        let client = exchanges[exchange].client
        cutAnswer(exchange, &scratch)
        if downstream.clients.isCurrent(client) { refreshInterest(client.index) }
    }
}
