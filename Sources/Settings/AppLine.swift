package import Gate
internal import Wire

/// A floor for versions of an app, as a `TOLLGATE_VERSION_GATE_…` line declares it.
package struct VersionGateDeclaration: Sendable {
    package var gate: VersionGate
    package var origin: Origin
}

extension VersionGateDeclaration: OptionTarget {
    package static let family = Setting.versionGate
    package var lineName: String { gate.name }
    package static let bare = Self(gate: VersionGate(name: ""), origin: .builtIn)

    package static let options = table {
        LineOption("header", \.gate.field, .plain(field), "the request field that has the app's version")
        LineOption(
            "min", ifSet: \.gate.least, .version, "4.2", "the lowest version that may pass; lower ones get 426 `APP_UPDATE_REQUIRED`")
        LineOption("warn", ifSet: \.gate.warned, .version, "4.5", "lower versions pass, and their responses have `X-App-Update`")
        LineOption(
            "url", ifSet: \.gate.url, .published(TypedText.linkURL), "a URL", "the page of the update, which the 426 has beside its code")
        LineOption(
            "platform", ifSet: \.gate.platform, OptionForm(plain: platform) { OptionValue("\($0.field):\($0.value)") }, "FIELD:VALUE",
            "the gate is for requests with this field and value, in any case")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(gate: VersionGate(name: name), origin: line.entry.origin)
        line.refuseWords("header=X-App-Version min=4.2 warn=4.5 url=https://… platform=X-App-Platform:ios")
        line.read(into: &self)
        if let least = gate.least, let warned = gate.warned, warned <= least {
            line.fault("warn= is not above min=, which refuses these versions already: raise it or remove it")
        }
    }

    static func field(_ text: String) throws(ParseError) -> String {
        try FieldOwner.request.check(text, isSet: false)
        return text
    }

    private static func platform(_ text: String) throws(ParseError) -> VersionGate.Platform {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, !parts[1].isEmpty else {
            throw ParseError("is no field with a value, write one like X-App-Platform:ios")
        }
        return VersionGate.Platform(field: try field(parts[0]), value: parts[1])
    }
}

extension OptionForm where Value == AppVersion {
    fileprivate static var version: Self {
        Self(plain: { text throws(ParseError) in
            guard let version = AppVersion(text) else { throw ParseError("is no version, write numbers with dots like 4.2") }
            return version
        }) { OptionValue($0.text) }
    }
}

extension OptionForm where Value == WallTime {
    /// A day, which begins at midnight UTC, or a time.
    fileprivate static var date: Self {
        Self(plain: { text throws(ParseError) in
            guard let time = ISO8601.parse(text.contains("T") ? text : text + "T00:00:00Z") else {
                throw ParseError("is no date, write one like 2027-03-01, or 2027-03-01T12:00:00Z")
            }
            return time
        }) { OptionValue(ISO8601.text($0).replacing("T00:00:00.000Z", with: "")) }
    }
}

/// The options of a route about its end and its apps.
extension RouteDeclaration {
    static let appOptions = table {
        LineOption(
            "app", \.rule.app, .choice(AppMode.allCases, \.rawValue),
            "whether versions of the app below the floor of their `TOLLGATE_VERSION_GATE_<NAME>` get 426 `APP_UPDATE_REQUIRED`; `required` refuses requests without a version, too"
        ).when { $0.rule.app != .off }
        LineOption(
            "sunset", ifSet: \.rule.sunset, .date, "2027-03-01",
            "the day from which on the route answers 410 `GONE`; until then responses have `Sunset` and `Deprecation`")
        LineOption(
            "deprecated", ifSet: \.rule.deprecated, .date, "2026-12-01",
            "the day for `Deprecation` (RFC 9745); with `sunset=` by default that on which the line was first adopted")
        LineOption("sunset-link", ifSet: \.rule.sunsetLink, .published(TypedText.webURL), "a URL", "a page about the end, for `Link`")
    }

    static func checkApp(_ line: inout OptionLine, _ rule: RouteRule) {
        if rule.shadow.contains(.app), rule.app == .off { line.fault("shadow=app needs app=, add app=required or remove it") }
        if rule.sunsetLink != nil, rule.sunset == nil, rule.deprecated == nil, !line.has("sunset") {
            line.fault("sunset-link= needs sunset=, add a date like sunset=2027-03-01")
        }
        if let sunset = rule.sunset, let deprecated = rule.deprecated, sunset < deprecated {
            line.fault("sunset= is before deprecated=, write a later one")
        }
        let names = (rule.answerFields.set.map(\.name) + rule.answerFields.removed).map { $0.lowercased() }
        for name in ["sunset", "deprecation"] where names.contains(name) && (rule.sunset != nil || rule.deprecated != nil) {
            line.fault("response-set= and response-remove= cannot name \(name) beside sunset= or deprecated=, which set it, leave it out")
        }
    }
}

extension ConfigurationReader {
    /// Refuses routes that ask for versions without a gate, and more gates than a policy has.
    mutating func checkApps() {
        let gates = configuration.versionGates
        for gate in gates.dropFirst(VersionGate.capacity) { findings.fault(gate, "is one of more than \(VersionGate.capacity), remove it") }
        for route in configuration.routes where route.rule.app != .off && gates.isEmpty {
            findings.fault(route, "has app=\(route.rule.app) and there is no \(Setting.versionGate.shownName), add one")
        }
        for (index, gate) in gates.enumerated() {
            // The first that is for a request decides.
            let earlier = gates[..<index].first { other in
                guard let platform = other.gate.platform else { return true }
                guard let own = gate.gate.platform else { return false }
                return [(platform.field, own.field), (platform.value, own.value)].allSatisfy { $0.lowercased() == $1.lowercased() }
            }
            guard let earlier else { continue }
            let why =
                earlier.gate.platform == nil ? "is for every request, give that one a platform= or put it behind" : "has the same platform="
            findings.warn(gate, "matches no request, as \(earlier.variable) before it \(why)")
        }
        if let gate = gates.first, configuration.routes.allSatisfy({ $0.rule.app == .off }) {
            findings.warn(gate, "is used by no route, write app=optional or app=required on one")
        }
    }
}
