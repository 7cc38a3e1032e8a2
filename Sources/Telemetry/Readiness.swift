package import Wire

/// The answer of `/readyz`: whether this gateway should get requests, and its problems.
package struct Readiness: Equatable, Sendable {
    /// Ascending; the worst check decides.
    package enum State: Int, Comparable, Sendable {
        case ready
        /// Something is missing, but requests are served: not a reason to remove the gateway.
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
        /// For the operator; nil if ready.
        var reason: String?
    }

    package private(set) var checks: [Check] = []

    package init() {}

    package mutating func add(_ name: String, _ state: State, _ reason: String? = nil) {
        checks.append(Check(name: name, state: state, reason: reason))
    }

    package var state: State { checks.map(\.state).max() ?? .ready }

    /// 503 removes the gateway from rotation.
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
