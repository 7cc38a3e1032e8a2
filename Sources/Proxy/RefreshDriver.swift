import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Requests that wait for the refresh of their expired token. Of their body no more is read meanwhile than came with the
/// head, so that nothing piles up here and the client feels it.
extension Worker {
    /// Requests of one worker that may wait at a time.
    private static var mostAwaited: Int { 4_096 }

    /// Leaves the request where it is, head and all, until `.refreshed` brings what came of its refresh.
    mutating func awaitRefresh(_ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        guard awaitedRefreshes < Self.mostAwaited else {
            return refuse(client, .unavailable(.overload, retryAfterSeconds: 1), &input, &scratch)
        }
        countToken(scratch.decision)
        lastRefresh += 1
        let number = lastRefresh
        awaitedRefreshes += 1
        clients[client].reading = .nothing
        clients[client].parking = .refresh(number)
        clients[client].parkedAt = clients[client].parkedAt ?? now.monotonic
        clientTimers.set(client, deadline: now.monotonic.advanced(milliseconds: settings.refreshTimeout))
        let (handle, mailbox) = (clientHandle(client), mailbox)
        services.refresh(admission.refreshOrder(scratch.decision, input.readable)) {
            mailbox.post(.refreshed(handle, number, $0))
        }
    }

    /// The answer came down; its request may have gone meanwhile.
    mutating func refreshed(_ handle: Handle, _ number: UInt64, _ answer: RefreshAnswer, _ scratch: inout Scratch) {
        guard clients.isCurrent(handle), clients[Int(handle.index)].parking == .refresh(number) else { return }
        goOn(Int(handle.index), with: answer, &scratch)
    }

    /// Nobody has answered in time: the client is told, and an answer that still comes finds nobody.
    mutating func refreshTimedOut(_ client: Int, _ scratch: inout Scratch) {
        goOn(client, with: RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader), &scratch)
    }

    private mutating func goOn(_ client: Int, with answer: RefreshAnswer, _ scratch: inout Scratch) {
        awaitedRefreshes -= 1
        telemetry.metrics.refreshed(RefreshResult(answer.outcome), RefreshSource(answer.role))
        clients[client].refresh = answer
        resume(client, &scratch)
    }
}

extension RefreshResult {
    /// The word for the metric.
    init(_ outcome: TokenRefreshOutcome) {
        switch outcome {
        case .refreshed(let tokens): self = tokens.refresh == nil ? .kept : .rotated
        case .refused: self = .refused
        case .unavailable: self = .unavailable
        }
    }
}

extension RefreshSource {
    /// The word for the metric.
    init(_ role: RefreshRole) {
        switch role {
        case .none, .leader: self = .leader
        case .follower: self = .follower
        case .remote: self = .remote
        }
    }
}
