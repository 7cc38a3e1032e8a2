internal import Proxy
internal import Transport

/// Requests and reports of single workers that need none of the control plane's state.
extension ControlState {
    /// Asks every other worker to close idle connections of an upstream for `worker`; false where there is no other.
    func makeRoom(for worker: Int, upstream: String, connections: Int) -> Bool {
        guard mailboxes.count > 1 else { return false }
        let asker = mailboxes[worker]
        let request = RoomRequest(upstream: upstream, connections: connections, workers: mailboxes.count - 1) {
            asker.post(.roomMade(upstream: upstream))
        }
        for other in mailboxes.indices where other != worker {
            if !mailboxes[other].post(.makeRoom(request)) { request.answered() }
        }
        return true
    }

    /// Answers to a filtered route had a body that is not JSON.
    func answersNotJSON(route: String, count: Int, isShadow: Bool) {
        let detail = "filter= lets JSON alone pass; filter-strict=off on the route lets other types pass unfiltered"
        log.warning(
            isShadow ? "an answer that is not JSON would be refused" : "an answer that is not JSON was refused",
            ("route", route), ("answers", "\(count)"), ("detail", detail))
    }
}
