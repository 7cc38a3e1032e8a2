import HTTP
import Telemetry
import Wire

/// A WebSocket through the gateway: the frames of both sides, which pass unchanged, and how the gateway ends it.
final class Tunnel {
    var fromClient: WebSocketFlow
    var fromServer: WebSocketFlow
    /// When something last came from either side.
    var movedAt: MonotonicTime
    /// Control frames of the client that count against it, and the second in which they were last counted down.
    private var controls = 0
    private var countedAt: UInt64 = 0
    /// Set once the gateway ends it: what both sides are told.
    private(set) var close: TunnelClose?
    /// The side that ended it by itself. Why the gateway did is in `LongAnswer.end`.
    var leftBy: StreamEndReason?

    init(_ acceptance: WebSocketAcceptance, at now: MonotonicTime) {
        fromClient = WebSocketFlow(from: .client, hasExtensions: acceptance.hasExtensions)
        fromServer = WebSocketFlow(from: .server, hasExtensions: acceptance.hasExtensions)
        movedAt = now
    }

    /// Counts control frames of the client. Each may make the server answer, and costs the client two bytes and a mask.
    ///
    /// - Returns: whether there are no more than 100 a second, and 1,000 at once.
    func mayControl(_ count: Int, at now: MonotonicTime) -> Bool {
        let second = now.nanoseconds / 1_000_000_000
        controls = max(0, controls - 100 * Int(min(second - countedAt, 10))) + count
        countedAt = second
        return controls <= 1_000
    }

    /// `count` bytes of this side's frame have passed without being read.
    func passed(_ count: Int, from side: WebSocketSide, at now: MonotonicTime) {
        switch side {
        case .client: fromClient.passed(count)
        case .server: fromServer.passed(count)
        }
        movedAt = now
    }

    /// Begins the end: no frame begins any more. False if it has begun.
    func end(_ close: TunnelClose) -> Bool {
        guard self.close == nil else { return false }
        self.close = close
        return true
    }

    /// Whether the server has sent its close frame, behind which nothing comes from it.
    var hasServersClose: Bool { close == nil && fromServer.isOver }

    /// Whether both sides have been told of the end, by each other or by the gateway.
    var isOver: Bool { fromClient.isOver && fromServer.isOver }
}

/// The gateway's end of a WebSocket: the close frame for each side (RFC 6455 §7.4.1, and codes of the gateway's own), and a word for
/// the log.
struct TunnelClose: Sendable {
    let client: WebSocketClose
    let server: WebSocketClose
    let error: StaticString

    private init(_ client: WebSocketClose, server: WebSocketClose? = nil, error: StaticString) {
        self.client = client
        self.server = server ?? client
        self.error = error
    }

    init(_ reason: StreamEndReason) {
        let close =
            switch reason {
            case .tokenExpired: WebSocketClose(4401, "token expired")
            case .sessionEnded: WebSocketClose(4403, "session ended")
            case .tier: WebSocketClose(4403, "tier lost")
            case .idle: WebSocketClose(1001, "idle")
            case .drain, .client, .upstream, .error: WebSocketClose(1001, "going away")
            }
        self.init(close, error: reason.word)
    }

    static let abuse = Self(WebSocketClose(1008, "abuse"), server: WebSocketClose(1001, "going away"), error: "abuse")

    /// A frame broke a rule: its sender gets 1002, a client whose server did so 1014.
    static func fault(of side: WebSocketSide) -> Self {
        let fault = WebSocketClose(1002, "protocol error")
        return switch side {
        case .client: Self(fault, server: WebSocketClose(1001, "going away"), error: "websocket_fault")
        case .server: Self(WebSocketClose(1014, "bad gateway"), server: fault, error: "bad_answer")
        }
    }
}
