internal import Admin
internal import Gate
internal import Limits
internal import System
internal import Wire

/// `tollgate limits verify`: checks from the access logs of all gateways that every limit was kept.
enum LimitsCommand {
    /// The maximum number of violations in the text output.
    private static let maximumShown = 20

    /// `terminal` as in `ProgressLine`.
    static func verify(_ paths: [String], json: Bool, terminal: (@Sendable (String) -> Void)? = nil) -> CommandResult {
        var logged = LoggedGrants()
        do throws(SystemFault) {
            for path in paths { try logged.read(path, terminal) }
        } catch {
            return .failed(error.description)
        }
        if logged.verifier.grantCount == 0 {
            return .failed("\(emptiness(logged)), so there is nothing to verify; \(hint(logged))")
        }
        let violations = logged.verifier.violations()
        return json ? report(logged, violations) : describe(logged, violations)
    }

    private static func emptiness(_ logged: LoggedGrants) -> String {
        logged.lines == 0 ? "the logs have no lines" : "the logs have \(counted(logged.lines, "line")) and no request that a limit admitted"
    }

    private static func hint(_ logged: LoggedGrants) -> String {
        logged.unreadable > 0
            ? "\(unreadable(logged)); the log must be written with TOLLGATE_ACCESS_LOG=json"
            : "give the access logs of gateways that have routes with limit="
    }

    private static func unreadable(_ logged: LoggedGrants) -> String {
        "\(logged.unreadable) of \(counted(logged.lines, "line")) \(logged.unreadable == 1 ? "is" : "are") not JSON"
    }

    private static func describe(_ logged: LoggedGrants, _ violations: [LimitVerifier.Violation]) -> CommandResult {
        let verifier = logged.verifier
        var text = "\(counted(logged.lines, "line")), \(counted(verifier.grantCount, "request")) admitted under "
        text += "\(counted(verifier.subjectCount, "limit")) of \(counted(Set(logged.routes.values).count, "route")).\n"
        if logged.unreadable > 0 { text += "\(unreadable(logged)) (ignored).\n" }
        if logged.uncounted > 0 {
            text += "\(counted(logged.uncounted, "request")) passed uncounted while Redis did not answer; this check counts them.\n"
        }
        if logged.missing > 0 {
            text +=
                "The logs lack \(counted(Int(clamping: logged.missing), "line")) with limits; requests of missing lines are not counted here.\n"
        }
        if logged.earlier > 0 {
            text +=
                "The gateways wrote \(counted(Int(clamping: logged.earlier), "line")) with limits before the first line of these logs.\n"
        }
        guard !violations.isEmpty else {
            let extent = logged.missing > 0 ? ", by the lines that are not missing" : ""
            return CommandResult(output: text + "Every window kept its bound: at most burst + rate × T\(extent).\n")
        }
        for violation in violations.prefix(maximumShown) { text += sentence(violation, logged) + "\n" }
        if violations.count > maximumShown { text += "… and \(violations.count - maximumShown) more.\n" }
        return CommandResult(output: text, exitCode: 1)
    }

    private static func sentence(_ violation: LimitVerifier.Violation, _ logged: LoggedGrants) -> String {
        let seconds = Double(violation.to - violation.from) / 1_000_000
        let route = logged.routes[violation.subject] ?? "?"
        return "route \(route), limit \(violation.subject.rate.text), caller \(violation.subject.key.text): "
            + "\(violation.admitted) admitted within \(seconds) s from \(violation.from) µs on, the bound is \(violation.bound)."
    }

    private static func report(_ logged: LoggedGrants, _ violations: [LimitVerifier.Violation]) -> CommandResult {
        let violation = Record<LimitVerifier.Violation>([
            .may("route") { logged.routes[$0.subject] }, .has("limit", \.subject.rate.text), .has("caller", \.subject.key.text),
            .has("from_us", \.from), .has("to_us", \.to), .has("admitted", \.admitted), .has("bound", \.bound),
        ])
        let record = Record<LoggedGrants>([
            .has("ok") { _ in violations.isEmpty }, .has("lines", \.lines), .has("unreadable", \.unreadable),
            .has("grants", \.verifier.grantCount), .has("limits", \.verifier.subjectCount), .has("uncounted", \.uncounted),
            .has("missing", \.missing), .has("earlier", \.earlier), .has("violations", .array(violation.shape)) { _ in violations },
        ])
        return .json(exitCode: violations.isEmpty ? 0 : 1) { record.write(logged, &$0) }
    }
}
