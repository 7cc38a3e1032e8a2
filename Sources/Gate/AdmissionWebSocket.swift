import HTTP
import Wire

/// One more WebSocket of a subject, of which a route has a maximum.
package struct SocketCharge: Equatable, Sendable {
    /// The route and the subject.
    package let key: LimitKey
    package let most: UInt32
}

extension Admission {
    /// Reads the handshake of a request with an `Upgrade` field, where the route takes any. Elsewhere, and for other protocols, the
    /// field is ignored and not forwarded. False if the request was refused.
    func readHandshake(
        _ gate: RouteGate, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> Bool {
        guard gate.takesWebSockets else {
            // Over HTTP/2 the field stands for an extended CONNECT (RFC 8441), whose client would take any success for a tunnel. A proxy
            // that has it checked would make the tunnel itself.
            guard head.isHTTP2 || decision.check != nil else { return true }
            decision.refuse(.notImplemented)
            return false
        }
        guard WebSocketHandshake.isAsked(by: head, bytes) else { return true }
        do throws(WebSocketHandshake.Fault) {
            decision.handshake = try WebSocketHandshake(head, bytes, readsToken: gate.auth != .none)
            return true
        } catch {
            switch error {
            case .malformed: decision.refuse(.badRequest(.handshake))
            case .version: decision.refuse(.upgradeRequired)
            }
            return false
        }
    }

    /// Fills `decision.socket`. False if the request was refused.
    func chargeSocket(
        _ route: Int, _ gate: RouteGate, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision
    ) -> Bool {
        guard gate.maxWebSockets > 0, let line = limits.socketLine(route) else { return true }
        guard let (_, subject) = subject(line, head, bytes, &decision) else {
            decision.refuse(.badRequest(.repeatedField))
            return false
        }
        decision.socket = SocketCharge(key: subject.combined(with: line.key), most: gate.maxWebSockets)
        return true
    }

    /// `Retry-After` of a handshake beyond `websocket-max`, in seconds.
    private static var socketRetrySeconds: UInt32 { 10 }

    /// Counts the WebSocket that the decision lets through; refuses the request if its subject has as many as the route allows.
    ///
    /// - Returns: the key for `closeSocket`; nil if nothing was counted.
    package mutating func openSocket(_ decision: inout Decision) -> LimitKey? {
        guard let socket = decision.socket, case .forward = decision.verdict else { return nil }
        if sockets.open(socket) { return socket.key }
        decision.refuse(.rateLimited(retryAfterSeconds: Self.socketRetrySeconds))
        return nil
    }

    /// The WebSocket has ended, or was not opened.
    package func closeSocket(_ key: LimitKey) { sockets.close(key) }
}
