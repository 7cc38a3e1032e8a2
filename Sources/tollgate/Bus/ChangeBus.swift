internal import Redis
internal import Settings
internal import Storage
internal import Telemetry
internal import Transport

/// How this gateway hears that others have changed something, and tells them: over Redis where `REDIS_URL` is set, else
/// over the database's own notifications where it has them, else not at all; then the database is looked into more often.
///
/// Only hints go over it. What has changed is read from the database, by `ChangeWatch`, and that goes on without a bus.
final class ChangeBus: Sendable {
    private let redis: RedisBus?
    private let postgres: PostgresListener?

    init(_ configuration: GatewayConfiguration, _ location: StoreLocation, control: ControlState, watch: ChangeWatch) throws {
        if let endpoint = configuration.redis {
            let carrier = "redis"
            control.busExpected(carrier)
            let bus = try RedisBus(
                endpoint, addresses: [], secret: configuration.keySecret,
                events: RedisBus.Events(
                    heard: {
                        control.countBus { $0.messages += 1 }
                        watch.look()
                    },
                    refused: { control.countBus { $0.refusedMessages += 1 } },
                    changed: { problem in
                        control.busChanged(carrier, problem: problem)
                        watch.busChanged(isThere: problem == nil)
                    }))
            if endpoint.fixedAddresses == nil { control.followRedis { bus.moved(to: $0) } }
            (redis, postgres) = (bus, nil)
        } else {
            let carrier = "postgres"
            redis = nil
            if location.isServer { control.busExpected(carrier) }
            postgres = location.listen(
                start: WorkerThread.start,
                heard: {
                    control.countBus { $0.messages += 1 }
                    watch.look()
                },
                changed: { problem in
                    control.busChanged(carrier, problem: problem)
                    watch.busChanged(isThere: problem == nil)
                })
        }
    }

    /// This gateway has changed something. Any thread; returns at once. PostgreSQL tells by itself.
    func tell() { redis?.tell() }

    func stop() {
        redis?.stop()
        postgres?.stop()
    }
}
