import Foundation

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

    func lines() throws -> [SourceLine] { SourceText.lines(of: try text()) }
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

    static var swiftSources: [TreeFile] { files(in: "Sources", suffixes: [".swift"]) }
    static var swiftFiles: [TreeFile] { swiftSources + files(in: "Tests", suffixes: [".swift"]) }

    /// The folders below `Sources`.
    static var targets: [String] { Array(Set(files(in: "Sources").map(\.target))).sorted() }

    static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appending(path: path).path)
    }

    private static func isDirectory(_ url: URL) -> Bool {
        var isDirectory: ObjCBool = false
        return FileManager.default.fileExists(atPath: url.path, isDirectory: &isDirectory) && isDirectory.boolValue
    }
}
