import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// What of a request is counted and logged, and when.
extension Worker {
    /// Fills the exchange's record and marks from the head in `scratch.request` and the decision.
    mutating func note(_ exchange: Int, _ client: Int, _ bytes: RawSpan, _ scratch: inout Scratch) {
        exchanges[exchange].method = scratch.request.method
        exchanges[exchange].minorVersion = scratch.request.minorVersion
        telemetry.mark(
            scratch.request, bytes, trusted: scratch.decision.client.peerIsTrusted, at: now.wall, &exchanges[exchange].marks)
    }
}

extension WorkerTelemetry {
    mutating func begin(faulty fault: HTTPFault, _ peer: Peer, at now: Moment, _ exchange: inout Exchange) {}
    mutating func note(_ loss: UpstreamLoss, _ record: inout RequestRecord) {}
    mutating func answered(_ status: Int, at now: Moment, _ record: inout RequestRecord) { record.status = status }
    mutating func end(_ record: inout RequestRecord, at now: Moment) {}
    mutating func connectionRefused() {}
    mutating func connectionOpened() {}
    mutating func connectionClosed() {}
    mutating func handshakeSucceeded(_ version: StaticString) {}
    mutating func handshakeFailed() {}
    mutating func retried(pool: String, _ reason: String) {}
    mutating func ejected(pool: String) {}
}
