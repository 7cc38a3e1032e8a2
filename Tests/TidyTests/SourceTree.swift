import Foundation
import Glibc
import Synchronization

/// A file of this package.
struct TreeFile {
    /// From the root of the package, with slashes.
    var path: String

    var name: String { String(path.split(separator: "/").last ?? "") }
    /// The folder below `Sources` or `Tests`: the target.
    var target: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }

    func text() throws -> String {
        try String(contentsOf: SourceTree.root.appending(path: path), encoding: .utf8)
    }

    /// Read once for all rules: the tree stands still while it is looked at.
    func lines() throws -> [SourceLine] {
        try Self.read.withLock { known in
            if let lines = known[path] { return lines }
            let lines = SourceText.lines(of: try text())
            known[path] = lines
            return lines
        }
    }

    private static let read = Mutex<[String: [SourceLine]]>([:])
}

extension String {
    /// Whether `word` occurs in it: a search by bytes, for lines by the ten thousand.
    func mentions(_ word: String) -> Bool { strstr(self, word) != nil }
}

/// The package on disk, found from where this file was compiled.
enum SourceTree {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Every file below `folder`, in a steady order; what a build leaves behind is no part of the tree.
    static func files(in folder: String, suffixes: [String] = [""]) -> [TreeFile] {
        let base = root.appending(path: folder)
        guard let paths = FileManager.default.enumerator(atPath: base.path) else { return [] }
        return paths.compactMap { $0 as? String }.sorted()
            .filter { path in suffixes.contains { path.hasSuffix($0) } && !isDirectory(base.appending(path: path)) }
            .map { TreeFile(path: folder + "/" + $0) }
    }

    static let swiftSources = files(in: "Sources", suffixes: [".swift"])
    static let swiftFiles = swiftSources + files(in: "Tests", suffixes: [".swift"])

    /// The folders below `Sources`.
    static let targets = Array(Set(files(in: "Sources").map(\.target))).sorted()

    static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appending(path: path).path)
    }

    private static func isDirectory(_ url: URL) -> Bool {
        var isDirectory: ObjCBool = false
        return FileManager.default.fileExists(atPath: url.path, isDirectory: &isDirectory) && isDirectory.boolValue
    }
}
