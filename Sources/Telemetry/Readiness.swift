package import Wire

/// What `/readyz` answers: whether this gateway should get requests, and what is wrong or merely worse than usual.
package struct Readiness: Equatable, Sendable {
    /// Ascending: the worst of all checks is the gateway's.
    package enum State: Int, Comparable, Sendable {
        case ready
        /// Something is missing and requests are served all the same: no reason to take the gateway out.
        case degraded
        case unready

        package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

        var text: StaticString {
            switch self {
            case .ready: "ready"
            case .degraded: "degraded"
            case .unready: "unready"
            }
        }
    }

    package struct Check: Equatable, Sendable {
        var name: String
        var state: State
        /// For people; nil where all is well.
        var reason: String?
    }

    package private(set) var checks: [Check] = []

    package init() {}

    package mutating func add(_ name: String, _ state: State, _ reason: String? = nil) {
        checks.append(Check(name: name, state: state, reason: reason))
    }

    package var state: State { checks.map(\.state).max() ?? .ready }

    /// 503 takes the gateway out of rotation.
    package var statusCode: Int { state == .unready ? 503 : 200 }

    package func write(into out: inout ByteBuffer) {
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.field("status", state.text)
            json.key("checks")
            json.beginArray()
            for check in checks {
                json.beginObject()
                json.field("name", check.name)
                json.field("status", check.state.text)
                if let reason = check.reason { json.field("reason", reason) }
                json.endObject()
            }
            json.endArray()
            json.endObject()
        }
    }
}
