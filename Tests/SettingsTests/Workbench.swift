import Glibc
import System
import Wire

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

/// A folder that is gone when the test is over.
final class TemporaryFolder {
    let path: String

    init() throws {
        var template = Array("/tmp/tollgate-test.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemFault("make a folder") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        // Two levels are all that the tests make.
        remove(path)
    }

    private func remove(_ folder: String) {
        for name in Self.names(folder) {
            let inner = "\(folder)/\(name)"
            if unlink(inner) != 0 { remove(inner) }
        }
        rmdir(folder)
    }

    /// Of what is in a folder.
    static func names(_ folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }
}

/// Where a file or folder of the package is.
func packagePath(_ path: String) -> String { "/" + #filePath.split(separator: "/").dropLast(3).joined(separator: "/") + "/" + path }

/// The whole text of a file of the package.
func packageFile(_ path: String) throws -> String {
    let bytes = try FileBytes.read(packagePath(path), limit: 1 << 20)
    return bytes.rawBytes.text
}

/// A moment so many seconds after an arbitrary start.
func moment(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: (1_000_000 + seconds) * 1_000_000_000) }
