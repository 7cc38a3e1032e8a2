internal import Redis
internal import Synchronization
internal import Wire

/// The map of the Redis Cluster in `REDIS_URL`, and the parts of the gateway that follow it.
final class RedisClusterMaps: Sendable {
    private struct State {
        var map: RedisClusterMap?
        var followers: [@Sendable (RedisClusterMap) -> Void] = []
    }

    /// Apart from its owner, so that the watch's thread does not keep that alive.
    private final class Board: Sendable {
        let state = Mutex(State())

        func adopt(_ map: RedisClusterMap) {
            state.withLock { state in
                state.map = map
                for follower in state.followers { follower(map) }
            }
        }
    }

    private let board = Board()
    private let watch: RedisClusterWatch

    /// nil for an endpoint that is no cluster. `problem` is called with the reason why there is no map, and with nil once there is one.
    init?(_ endpoint: RedisEndpoint, log: ServerLog, problem: @escaping @Sendable (String?) -> Void) throws {
        guard case .cluster = endpoint.topology else { return nil }
        watch = try RedisClusterWatch(endpoint) { [board] event in
            switch event {
            case .problem(let text): problem(text)
            case .map(let map):
                log.info("nodes of the Redis Cluster", ("primaries", map.names { $0.isPrimary }), ("away", map.names { $0.isAway }))
                board.adopt(map)
            }
        }
    }

    /// Calls `follower` with the map, now if there is one and whenever it changes: in order, under a lock. It must not block, nor ask
    /// this object for anything.
    func follow(_ follower: @escaping @Sendable (RedisClusterMap) -> Void) {
        board.state.withLock { state in
            state.followers.append(follower)
            if let map = state.map { follower(map) }
        }
    }

    /// A worker has seen that the map is out of date. Any thread.
    func refresh() { watch.refresh() }

    func stop() { watch.stop() }
}

extension RedisClusterMap {
    fileprivate func names(_ isNamed: (Node) -> Bool) -> String {
        nodes.filter(isNamed).map(\.name).joined(separator: " ")
    }
}
