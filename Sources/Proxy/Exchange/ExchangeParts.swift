import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Facts of a request, from its head or from the decision about it.
struct RequestFacts {
    var dialect = Dialect.problem
    /// Of a request that is only checked, method and version are those of the check.
    var method = Method.other
    var version = HTTPVersion.http11
    /// Where the request was described, if it is only checked.
    var check: CheckEndpoint?
    /// The target whose stored answers are out of date if it succeeds.
    var invalidates: UInt64?
    /// Whether the client ended the request with its head: there is no content, not even an empty frame of it.
    var isHeadAlone = false
    var passesTrailers = true
    var bodyLimit = UInt64.max
    /// When the client gives up (`grpc-timeout`); nil for never.
    var deadline: MonotonicTime?
    /// Whether the token of a WebSocket's handshake came with the subprotocol `bearer`.
    var offersBearer = false
    /// The key of the account whose merges the upstream is told of, which its answer may confirm.
    var announced: LimitKey?
    /// Whether the request is recorded as spans.
    var isTraced = false
    var streamRule = StreamRule()
}

/// Parts that few exchanges have. They stand behind one reference, so that all other exchanges have only that to look at and to reset.
final class RareParts {
    /// The refresh that the request asked for, once it is over.
    var refresh: CompletedRefresh?
    /// The handler that answers it, and the request for it, while the body is collected.
    var local: LocalExchange?
    /// Set if its answer may be stored, and is not: the home of its key is asked for it.
    var order: CacheOrder?
    /// Set if the answer goes to the cache, and to those who wait for it there.
    var fetch: CacheFlight?
    /// The copy for another upstream, while the content arrives.
    var copy: RequestCopy?
    /// The route, if the exchange is a copy of a request: then it has no client.
    var copiedRoute: LabelID?
    /// Set while the answer is a stream.
    var live: LongAnswer?
    /// Set once the upstream has accepted a WebSocket.
    var tunnel: Tunnel?

    /// Bytes of content that wait in them.
    var heldBytes: Int { (copy?.count ?? 0) + (fetch?.heldBytes ?? 0) }
}

/// The bounds that the exchange counts for. Each is given back by its own release before the end.
struct ExchangeCounts {
    /// For whom it counts: its client, once it was looked for room. Kept until the exchange ends.
    var share: ShareIndex?
    /// Whether it counts for `maxRequests`.
    var holdsSlot = false
    /// Whether it counts as a long answer instead.
    var isLong = false
    /// The counts of its upstream that it is part of.
    var holdings = RequestHoldings()
    /// The count of a WebSocket among its subject's.
    var socket: LimitKey?
}

/// The memory of an exchange, kept for the next one.
struct ExchangeBuffers: ~Copyable {
    /// The request's head, kept while it waits for an entitlement or a refresh, after which it is decided about again.
    var heldHead = ByteBuffer()
    /// Fields of the gateway's own for the answer.
    var answerEdits = FieldEdits()
    /// `X-Request-Id`: 36 bytes of our own, or a trusted proxy's.
    var requestID = ByteBuffer(capacity: 40)
    /// The stages of its answers: most exchanges have none.
    var stages: AnswerStages?

    mutating func reuse() {
        heldHead.reuse()
        answerEdits.removeAll()
    }
}

/// A refresh that a request has waited for.
struct CompletedRefresh {
    let answer: RefreshAnswer
    let began: MonotonicTime
    let ended: MonotonicTime
}

/// The answer that a request waits for, and what its end needs.
enum Wait {
    case none
    /// The caller's tier, from the accounts.
    case entitlement
    /// The refresh of the caller's expired token.
    case refresh(since: MonotonicTime, until: MonotonicTime)
    /// The verdict of limits that are counted in Redis.
    case limits(AwaitedLimits)
    /// The answer of a handler of the gateway.
    case handler(until: MonotonicTime)
    /// A connection within `max-connections`, which other workers may free.
    case room
    /// An answer that the home of this key has or fetches.
    case fetch(LimitKey)

    /// nil for a wait that has no deadline of its own.
    var deadline: MonotonicTime? {
        switch self {
        case .refresh(_, let until), .handler(let until): until
        case .none, .entitlement, .limits, .room, .fetch: nil
        }
    }

    var kind: ExchangeState.Wait {
        switch self {
        case .none: preconditionFailure("a wait for nothing")
        case .entitlement: .entitlement
        case .refresh: .refresh
        case .limits: .limits
        case .handler: .handler
        case .room: .room
        case .fetch: .fetch
        }
    }
}
