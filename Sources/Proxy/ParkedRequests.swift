import Gate
import HTTP
import Transport
import Wire

/// Requests that wait for what the accounts say of their caller. A request waits at most once for a user that nobody here
/// has heard of; each user is asked for once, however many requests of theirs wait.
extension Worker {
    /// Leaves the request where it is, head and all, until `learned` brings the standing of its user.
    mutating func park(_ client: Int, _ decision: borrowing Decision) {
        countToken(decision)
        clients[client].reading = .nothing
        clients[client].parking = .standing
        clients[client].parkedAt = clients[client].parkedAt ?? now.monotonic
        let user = decision.userID.text
        if parked[user] == nil { services.lookUpUser(user) }
        parked[user, default: []].append(clientHandle(client))
    }

    /// The accounts have spoken: what waited for it is decided anew.
    mutating func learned(_ users: [UserStanding], _ scratch: inout Scratch) {
        admission.learn(users)
        guard !parked.isEmpty else { return }
        for user in users {
            for client in parked.removeValue(forKey: user.user) ?? [] {
                guard clients.isCurrent(client), clients[Int(client.index)].parking == .standing else { continue }
                resume(Int(client.index), &scratch)
            }
        }
    }

    /// Decides anew about a request that waited.
    mutating func resume(_ client: Int, _ scratch: inout Scratch) {
        let handle = clientHandle(client)
        clients[client].parking = .none
        var input = ByteBuffer()
        swap(&input, &clients[client].input)
        // It was complete before; a reload may have lowered the limits since.
        guard scratch.request.parse(input.readable, limits: settings.headLimits) == .complete else {
            return abandon(client, &scratch)
        }
        decide(client, isSampled: telemetry.samples(), &input, &scratch)
        guard clients.isCurrent(handle) else { return }
        if !input.isEmpty { clients[client].input.append(input.readable) }
        continueReading(client, &scratch)
    }
}
