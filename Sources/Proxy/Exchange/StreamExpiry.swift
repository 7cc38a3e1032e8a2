import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Ends long answers whose token has expired or whose session has ended. Checked for all answers once a second and when sessions
/// end, not for each piece of content.
extension Worker {
    /// Shorter answers are left to end by themselves. Nanoseconds.
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
            exchanges[exchange].record.error = end.text
            let client = exchanges[exchange].client
            cutAnswer(exchange, &scratch)
            if downstream.clients.isCurrent(client) { refreshInterest(client.index) }
        }
    }
}
