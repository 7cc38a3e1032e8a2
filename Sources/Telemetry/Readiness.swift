package import Wire

/// The answer of `/readyz`: whether this gateway should get requests, and its problems.
package struct Readiness: Equatable, Sendable {
    /// Ascending; the worst check decides.
    package enum State: Int, CaseIterable, Comparable, Sendable {
        case ready
        /// Something is missing, but requests are served: not a reason to remove the gateway.
        case degraded
        case unready

        package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

        package var text: StaticString {
            switch self {
            case .ready: "ready"
            case .degraded: "degraded"
            case .unready: "unready"
            }
        }
    }

    package struct Check: Equatable, Sendable {
        package var name: String
        package var state: State
        /// For the operator; nil if ready.
        package var reason: String?
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

    /// Reads what `write` has written; nil for anything else.
    package init?(_ json: RawSpan) {
        do throws(JSONFault) {
            var reader = JSONReader(json)
            guard try reader.next() == .beginObject else { return nil }
            var isReadiness = false
            while case .key(let key) = try reader.next() {
                if reader.text(key, equals: "checks") {
                    guard try readChecks(&reader) else { return nil }
                    isReadiness = true
                } else {
                    try reader.skipValue()
                }
            }
            guard isReadiness else { return nil }
        } catch {
            return nil
        }
    }

    private mutating func readChecks(_ reader: inout JSONReader) throws(JSONFault) -> Bool {
        guard try reader.next() == .beginArray else { return false }
        while try reader.next() == .beginObject {
            var check = Check(name: "", state: .unready, reason: nil)
            while case .key(let key) = try reader.next() {
                let name = reader.string(key)
                guard case .string(let text) = try reader.next() else { return false }
                let value = reader.string(text)
                switch name {
                case "name": check.name = value
                case "status": check.state = State.allCases.first { $0.text.description == value } ?? .unready
                case "reason": check.reason = value
                // Another release may say more.
                default: break
                }
            }
            checks.append(check)
        }
        return true
    }
}
