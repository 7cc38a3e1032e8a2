import HTTP
import Wire

/// Whether a route asks for the version of the app (`app=`).
package enum AppMode: String, Sendable, CaseIterable {
    case off
    /// A version below the floor is refused; a request without a version passes.
    case optional
    /// A request without a version, or of an unknown platform, is refused, too.
    case required
}

/// A floor for the versions of an app (`TOLLGATE_VERSION_GATE_<NAME>`).
package struct VersionGate: Equatable, Sendable {
    /// In lower case.
    package var name: String
    /// The request field that has the version.
    package var field = "X-App-Version"
    /// Lower versions are refused, and lower ones than the second are told of an update.
    package var least: AppVersion?
    package var warned: AppVersion?
    /// Where users find the update.
    package var url: String?
    /// The gate is for requests with this field and value; nil for all.
    package var platform: Platform?

    package struct Platform: Equatable, Sendable {
        package var field: String
        package var value: String

        package init(field: String, value: String) { (self.field, self.value) = (field, value) }
    }

    package init(name: String) { self.name = name }

    /// As many as a policy may have.
    package static let capacity = 16
    /// The number of a request's gate where no gate is for its platform.
    static let none: UInt8 = 255

    /// The value of `Upgrade` in a refusal.
    var protocolText: String { least.map { "app/\($0.text)" } ?? "app" }

    /// The sole field of a name; nil for none and for several, of which the upstream may read another.
    static func sole(_ name: String, _ head: borrowing RequestHead, _ bytes: RawSpan) -> Slice? {
        name.withRawBytes { name in
            var found: Slice?
            for index in 0..<head.fields.count where FoldedName.isSpelling(bytes[head.fields[index].name], of: name) {
                guard found == nil else { return nil }
                found = head.fields[index].value
            }
            return found
        }
    }

    /// Whether it is for the platform of this request.
    fileprivate func takes(_ head: borrowing RequestHead, _ bytes: RawSpan) -> Bool {
        guard let platform else { return true }
        guard let slice = Self.sole(platform.field, head, bytes) else { return false }
        return platform.value.withRawBytes { FoldedName.isSpelling(bytes[slice], of: $0) }
    }
}

extension Admission {
    /// Whether the app is new enough for the route; notes its version for the census.
    func admitsApp(_ plan: EdgePlan, _ head: borrowing RequestHead, _ bytes: RawSpan, _ decision: inout Decision) -> Bool {
        var number = 0
        while number < policy.versionGates.count, !policy.versionGates[number].takes(head, bytes) { number += 1 }
        let isKnown = number < policy.versionGates.count
        let chosen = isKnown ? UInt8(number) : VersionGate.none
        decision.appGate = chosen
        decision.appVersion = nil
        var isTooOld = plan.app == .required
        if isKnown, let slice = VersionGate.sole(policy.versionGates[number].field, head, bytes),
            let version = AppVersion(bytes[slice])
        {
            let gate = policy.versionGates[number]
            decision.appVersion = version
            decision.appField = slice
            isTooOld = gate.least.map { version < $0 } ?? false
            if !isTooOld, let warned = gate.warned, version < warned, decision.check == nil {
                let line = policy.updateLines[number]
                decision.answerEdits.append(rendered: line.rawBytes)
            }
        }
        guard isTooOld else { return true }
        if plan.isAppShadowed {
            decision.shadowed.insert(.app)
            return true
        }
        decision.refuse(.appUpdateRequired(gate: chosen, isVersionMissing: decision.appVersion == nil))
        return false
    }
}

extension Policy {
    /// The gate of a refusal.
    func versionGate(_ number: UInt8) -> VersionGate? {
        versionGates.indices.contains(Int(number)) ? versionGates[Int(number)] : nil
    }

    /// Which field the app must send; nil if no gate says.
    func missingVersion(_ number: UInt8) -> String? {
        if let gate = versionGate(number) { return "The request must name the version of the app in \(gate.field), like 4.2." }
        var fields: [String] = []
        for field in versionGates.compactMap(\.platform?.field) where !fields.contains(field) { fields.append(field) }
        return fields.isEmpty ? nil : "The request must name a known platform of the app in \(fields.joined(separator: " or "))."
    }
}
