package import Accounts
internal import Credentials
internal import HTTP
package import Wire

extension AdminOperation {
    /// The events of accounts, and the services that are told of them.
    static let events = [
        AdminOperation(
            "GET", "events", "listEvents", "The events of accounts, the oldest first, as subscribers get them", access: .scope(.usersRead),
            query: [
                Parameter("after", "The id of the last event of the page before", .id),
                Parameter("account", "Only those of this account: its id, also of a deleted one, its email, or NAME:SUBJECT"), page,
            ], answers: EventPage.shape, refusals: [404]
        ) { api, call in
            try await api.operator.events(
                of: call.query["account"], after: try call.query.id("after", of: "an event"), limit: try call.query.limit())
        },
        AdminOperation(
            "GET", "event-subscribers", "listEventSubscribers", "The services that events are sent to, and what waits for them",
            access: .scope(.usersRead), answers: .list("subscribers")
        ) { api, _ -> [Subscription] in try await api.operator.directory.subscriptions() },
        AdminOperation(
            "POST", "events/{subscriber}/replay", "replayEvents", "Sends a service all events behind one again", access: .operator,
            body: .object([.has("after", .id)]), answers: ReplayedSubscriber.shape, refusals: [404]
        ) { api, call in
            guard let after = UUID(parsing: try RequestObject(call.request.body).text("after") ?? "") else {
                throw AdminRefusal(400, "BAD_REQUEST", "after must be the id of an event")
            }
            return try await api.operator.replay(to: call.arguments[0], after: after)
        },
    ]
}

extension Operator {
    /// The events behind one, of the account that a name stands for or of all; those of a deleted account by its id.
    package func events(of name: String?, after: UUID?, limit: Int) async throws -> EventPage {
        var account = name.flatMap { UUID(parsing: $0) }
        if let name, account == nil { account = try await self.account(name).id }
        var position: Int64 = 0
        if let after { position = try await place(of: after) }
        let events = try await directory.events(after: position, of: account, limit: limit)
        return EventPage(events: events)
    }

    /// Sends a service all events behind one again.
    package func replay(to subscriber: String, after: UUID) async throws -> ReplayedSubscriber {
        guard try await administration.replay(to: subscriber, after: try await place(of: after)) else {
            throw OperatorRefusal.unknownSubscriber(subscriber)
        }
        return ReplayedSubscriber(subscriber: subscriber, after: after)
    }

    private func place(of event: UUID) async throws -> Int64 {
        guard let position = try await directory.position(ofEvent: event) else { throw OperatorRefusal.unknownEvent }
        return position
    }
}

/// Events of accounts, and where the next page begins.
package struct EventPage: Sendable, Recorded {
    package let events: [AccountEvent]
    /// nil for none: `after` of the next page.
    package var next: UUID? { events.last?.id }

    package static let record = Record<Self>([
        .has("events", \.events), .may("next", about: "The id for `after` of the next page; missing where there are no events", \.next),
    ])
}

/// A service that events are sent to again.
package struct ReplayedSubscriber: Sendable, Recorded {
    let subscriber: String
    let after: UUID

    package static let record = Record<Self>([.has("subscriber", \.subscriber), .has("after", \.after)])
}

extension AccountEvent: Recorded {
    package static let record = Record<Self>(
        "AccountEvent",
        [
            .has("id", \.id), .has("type", .cases, \.kind), .has("timestamp", \.at), .has("account", \.account),
            .has("data", .anything, about: "The account again, and what belongs to this type", \.data),
        ])
}

extension Subscription: Recorded {
    package static let record = Record<Self>(
        "EventSubscriber",
        [
            .has("name", \.name), .has("behind", about: "Entries of the audit log that were not looked at for it", { Int($0.behind) }),
            .has("waiting", about: "Events that wait for their next try", { Int($0.waiting) }),
            .has("parked", about: "Events that were given up after three days", { Int($0.parked) }),
            .may("waiting_since", \.waitingSince), .may("failure", about: "Why the newest of these did not arrive", \.failure),
        ])
}
