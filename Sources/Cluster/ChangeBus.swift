internal import Storage
internal import Threads

/// Carries hints between gateways.
package protocol HintCarrier: Sendable {
    /// Hints to the other gateways. Any thread; returns at once.
    func publish()
    /// Ends its thread and waits for it.
    func stop()
}

/// Something that the owner of a carrier learns.
package enum HintEvent: Sendable {
    /// Another gateway has published, or a lost subscription is back: messages in between were missed.
    case hinted
    /// A message came that was not made with the secret.
    case refused
    /// The subscription was made, or lost with this error.
    case changed(problem: String?)
    /// One of its connections is lost, or its server refuses commands.
    case lost
    /// The server has acknowledged what was published.
    case published
}

/// Hints between gateways that the change log has grown: over Redis with `REDIS_URL`, else by PostgreSQL's notifications.
/// With neither there is no bus, and the poller reads more often.
///
/// Hints carry no data. Every change is read from the log by `ChangeLogPoller`, which polls with and without a bus.
final class ChangeBus: Sendable {
    private let redis: (any HintCarrier)?
    private let postgres: PostgresListener?

    /// Throws if the system gives no thread or descriptor.
    init(_ plan: ClusterPlan, poller: ChangeLogPoller, report: @escaping @Sendable (ClusterReport) -> Void) throws {
        let carrier = plan.redis != nil ? "redis" : "postgres"
        let hinted: @Sendable () -> Void = {
            report(.hintReceived)
            poller.hint()
        }
        let changed: @Sendable (String?) -> Void = { problem in
            report(problem.map { .busLost(carrier: carrier, problem: $0) } ?? .busConnected(carrier: carrier))
            poller.busChanged(isConnected: problem == nil)
        }
        if plan.redis != nil || plan.location.isServer { report(.busExpected(carrier: carrier)) }
        if let start = plan.redis {
            redis = try start { event in
                switch event {
                case .hinted: hinted()
                case .refused: report(.messageRefused)
                case .changed(let problem): changed(problem)
                case .lost, .published: break
                }
            }
            postgres = nil
        } else {
            redis = nil
            postgres = (plan.notifications ?? plan.location).listen(
                isDirect: plan.notifications != nil, primary: plan.primary, start: WorkerThread.start, heard: hinted, changed: changed)
        }
    }

    /// Hints to the other gateways; PostgreSQL's triggers do so by themselves. Any thread; returns at once.
    func publish() { redis?.publish() }

    func stop() {
        redis?.stop()
        postgres?.stop()
    }
}
