/// How content that arrives goes on: the one choice that both directions make for each piece.
enum BodyRoute: Equatable, Sendable {
    /// Copied to the other side, or behind what waits for it.
    case copy
    /// Moved by the kernel between two plain sockets, without coming into this process.
    case splice
    /// Through the JSON filter of the route.
    case filter
    /// Into the body of a request that the gateway answers itself.
    case collect
    /// Read and dropped: the other side takes no more.
    case discard

    /// Content that is left to be copied behind what was spliced, so that the end is seen in one place.
    static let tail: UInt64 = 64 * 1_024

    /// For content of a request.
    init(request state: ExchangeState) {
        switch state.phase {
        case .collecting: self = .collect
        case .connecting, .relaying: self = state.upstreamStoppedReading ? .discard : .copy
        case .deciding, .waiting, .answered: preconditionFailure("content that has nowhere to go was read")
        }
    }

    /// For content of an answer.
    init(answer filter: borrowing AnswerFilter) { self = filter.isFiltering ? .filter : .copy }
}
