import Testing

/// The soft limit of a file's length. A longer file that is right as it is gets an entry here with the reason.
private let longFiles: [String: String] = [:]
private let maxFile = 400
/// The page with the map of files.
private let map = "docs/architecture.md"

@Suite struct MapTests {
    private static let folders = Set(["Sources", "Tests", "deploy", "config", "docs"]).union(SourceTree.targets)

    @Test func noFileIsLongWithoutAReason() throws {
        for file in SourceTree.files(in: "Sources", suffixes: [".swift", ".c", ".h"]) {
            let count = try file.text().split(separator: "\n", omittingEmptySubsequences: false).count
            #expect(
                count <= maxFile || longFiles[file.path] != nil,
                "\(file.path) has \(count) lines: split it by what it decides, or list it here with the reason that it is one thing")
        }
        for path in longFiles.keys { #expect(SourceTree.exists(path), "\(path) is gone: take its reason out of the list") }
    }

    @Test func theMapNamesEveryTarget() throws {
        let text = try TreeFile(path: map).text()
        // C targets are shims and need no entry.
        for target in SourceTree.targets where target.dropFirst().first?.isUppercase != true || target == "HTTP" {
            #expect(text.contains("`\(target)`") || text.contains("\(target)/"), "\(map) does not name \(target): put it on the map")
        }
    }

    @Test func everyFileThatADocumentNamesExists() throws {
        var found = 0
        for page in Documents.pages {
            for (index, line) in try page.text().split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                for path in mappedPaths(String(line)) {
                    found += page.path == map ? 1 : 0
                    let places = [path, "Sources/" + path, "Sources/" + path + ".swift"]
                    #expect(
                        places.contains(where: SourceTree.exists),
                        "\(page.path):\(index + 1): \(path) does not exist: correct the page in the commit that moves the file")
                }
            }
        }
        #expect(found >= SourceTree.targets.count, "\(map) names only \(found) files: it is no map yet")
    }

    @Test func everyPageThatAFileNamesExists() throws {
        var found = 0
        for file in ["Sources", "deploy", "config"].flatMap({ SourceTree.files(in: $0) })
        where !file.path.hasSuffix(".png") && !file.path.hasSuffix(".gz") {
            for page in try file.text().matches(of: /docs\/[A-Za-z0-9_\/-]+\.md/).map({ String($0.output) }) {
                found += 1
                #expect(SourceTree.exists(page), "\(file.path) names \(page), which does not exist: name another page")
            }
        }
        #expect(found > 20)
    }

    @Test func noFileKnowsTheMachineItWasWrittenOn() throws {
        let folders = ["Sources", "deploy", "config", "docs"]
        for file in folders.flatMap({ SourceTree.files(in: $0) }) + rootFiles
        where !file.path.hasSuffix(".png") && !file.path.hasSuffix(".gz") {
            for (index, line) in try file.text().split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                for path in ["/tmp/", "/work/", "/root/", "/home/"] where names(String(line), path) {
                    Issue.record(
                        "\(file.path):\(index + 1): \(path) is a path of one machine: use one below the package, mktemp, or a setting")
                }
            }
        }
    }

    private var rootFiles: [TreeFile] {
        ["README.md", "Package.swift"].filter(SourceTree.exists).map { TreeFile(path: $0) }
    }

    /// Whether `line` names a folder at the root of the file system, and not one inside a longer path or URL.
    private func names(_ line: String, _ folder: String) -> Bool {
        line.mentions(folder)
            && line.ranges(of: folder).contains { range in
                guard range.lowerBound > line.startIndex else { return true }
                let before = line[line.index(before: range.lowerBound)]
                return !(before.isLetter || before.isNumber || "._-/}".contains(before))
            }
    }

    /// The words of a line that name files: below a folder of the package, or below a target. `NameContract` and its
    /// like stand for a name to be chosen.
    private func mappedPaths(_ line: String) -> [String] {
        let words = line.split { !($0.isLetter || $0.isNumber || "._/-".contains($0)) }
        return words.compactMap { word in
            let parts = word.split(separator: "/")
            guard parts.count > 1, word.first != "/", Self.folders.contains(String(parts[0])) else { return nil }
            guard parts[1].first?.isNumber == false, !parts.contains(where: { $0.hasPrefix("Name") }) else { return nil }
            return word.hasSuffix(".") || word.hasSuffix("/") ? String(word.dropLast()) : String(word)
        }
    }
}
