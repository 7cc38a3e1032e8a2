import Glibc
import System

@testable import Settings
@testable import tollgate

/// The settings that `text` and the environment come to, with files in memory.
func load(
    _ text: String, name: String = "a.env", environment: [(name: String, value: String)] = [],
    files: [String: [UInt8]] = [:]
) -> LoadedConfiguration {
    load([(name, text)], environment: environment, files: files)
}

func load(
    _ texts: [(name: String, text: String)], environment: [(name: String, value: String)] = [],
    files: [String: [UInt8]] = [:]
) -> LoadedConfiguration {
    LoadedConfiguration(
        SettingSources(
            files: texts.map { ($0.name, Array($0.text.utf8)) }, environment: environment,
            readFile: { path in
                guard let bytes = files[path] else { return .failure(UnreadableFile(reason: systemErrorText(ENOENT))) }
                return .success(bytes)
            }))
}

/// A route and its upstream, so that nothing else is missing.
let oneRoute = """
    TOLLGATE_UPSTREAM_U=http://127.0.0.1:9001
    TOLLGATE_ROUTE_R="/r/* upstream=u"

    """

/// The texts of all faults.
func faults(_ text: String, files: [String: [UInt8]] = [:]) -> [String] {
    load(text, files: files).findings.faults.map(\.text)
}

func warnings(_ text: String, files: [String: [UInt8]] = [:]) -> [String] {
    load(text, files: files).findings.warnings.map(\.text)
}
