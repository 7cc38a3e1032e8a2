import Testing

/// The files of this rule, which must name the words that it bans.
private let exempt: Set<String> = ["Tests/TidyTests/RenamedWords.swift", "Tests/TidyTests/PlainWordTests.swift"]

@Suite struct PlainWordTests {
    @Test func noOldNameStandsInTheTree() throws {
        let renamed = renamedTypes.merging(renamedMembers) { $1 }
        for file in SourceTree.swiftFiles where !exempt.contains(file.path) { report(oldNames(in: file, try file.text(), renamed)) }
        for page in Documents.pages { report(oldNames(in: page, try page.text(), renamedTypes)) }
    }

    @Test func commentsAreNoRiddles() throws {
        for file in SourceTree.swiftFiles where Riddle.bans(file) { report(riddles(in: file, try file.lines())) }
    }

    private func report(_ faults: [String]) {
        for fault in faults { Issue.record("\(fault)") }
    }
}

/// The rules themselves: each finds what it should, and lets be what it should.
@Suite struct PlainWordRuleTests {
    private let file = TreeFile(path: "Sources/Gate/X.swift")

    @Test func anOldNameIsFoundInCodeCommentsAndFileNames() {
        let old = ["LimitSheet": "CompiledLimits"]
        for text in ["let x: LimitSheet", "/// As in `LimitSheet`.", "x(\"LimitSheet.swift\")", "LimitSheet.Row()"] {
            #expect(oldNames(in: file, "\n\n" + text, old) == ["Sources/Gate/X.swift:3: `LimitSheet` is now CompiledLimits"], "\(text)")
        }
        #expect(oldNames(in: TreeFile(path: "Sources/Gate/LimitSheet.swift"), "", old).count == 1)
        for text in ["LimitSheets", "aLimitSheet", "LimitSheet2", "limitSheet", "Limit Sheet"] {
            #expect(oldNames(in: file, text, old).isEmpty, "\(text)")
        }
    }

    @Test func noNewNameIsAnOldOne() {
        let olds = Set(renamedTypes.keys).union(renamedMembers.keys)
        for name in renamedTypes.values { #expect(!olds.contains(name), "\(name)") }
    }

    @Test(arguments: [
        "/// What a worker heard.", "    // What is left.", "/// Kept for whoever asks.", "// Nobody waits.", "let x = 1 // nobody's",
        "/// The rest is somebody else's.", "/// Whoever comes next.", "/** What it is. */", "/// From anybody.",
    ])
    func aRiddleIsFound(_ comment: String) {
        #expect(riddles(in: file, SourceText.lines(of: comment)).count == 1)
    }

    @Test(arguments: [
        "/// The key that says what it is.", "/// `What` is a name.", "let nobody = 1", "x(\"nobody\") // the caller",
        "/// A body, none of it.", "let url = \"https://nobody.test\"",
    ])
    func aPlainSentenceIsLetBe(_ comment: String) {
        #expect(riddles(in: file, SourceText.lines(of: comment)).isEmpty)
    }

    @Test func aTargetAndItsTestsAreHeldToItAndOthersAreNot() {
        #expect(Riddle.bans(file) && Riddle.bans(TreeFile(path: "Tests/GateTests/X.swift")))
        #expect(!Riddle.bans(TreeFile(path: "Sources/None/X.swift")) && !Riddle.bans(TreeFile(path: "Tests/NoneTests/X.swift")))
        for target in Riddle.plainTargets { #expect(SourceTree.targets.contains(target), "\(target)") }
    }
}

/// Places of old names, as whole words, in `text` and in the file's name.
private func oldNames(in file: TreeFile, _ text: String, _ renamed: [String: String]) -> [String] {
    let fileName = file.name.split(separator: ".").first.map(String.init) ?? ""
    var faults = renamed[fileName].map { ["\(file.path): `\(fileName)` is now \($0)"] } ?? []
    // Most files hold none, so lines are split in the few that do.
    guard identifiers(text).contains(where: { renamed[$0] != nil }) else { return faults }
    for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
        for word in identifiers(String(line)) {
            if let name = renamed[word] { faults.append("\(file.path):\(index + 1): `\(word)` is now \(name)") }
        }
    }
    return faults
}

private func riddles(in file: TreeFile, _ lines: [SourceLine]) -> [String] {
    lines.filter(\.hasComment).flatMap { line -> [String] in
        let words = identifiers(line.comment)
        return Riddle.all.compactMap { riddle in
            let isFound = riddle.onlyAtStart ? beginsComment(line.comment, with: riddle.words) : words.contains(riddle.words)
            return isFound ? "\(file.path):\(line.number): \"\(riddle.words)\" in a comment: instead \(riddle.instead)" : nil
        }
    }
}

private func beginsComment(_ comment: String, with word: String) -> Bool {
    let text = comment.drop { $0 == "/" || $0 == "*" || $0 == " " }
    return text.hasPrefix(word) && text.dropFirst(word.count).first.map { $0 == " " || $0 == "," || $0 == "'" } ?? true
}

/// The words of letters, digits and underscores; bytes above ASCII separate them.
private func identifiers(_ text: String) -> Set<String> {
    var words: Set<String> = []
    var word: [UInt8] = []
    for byte in text.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "_"):
            word.append(byte)
        default:
            if !word.isEmpty { words.insert(String(decoding: word, as: UTF8.self)) }
            word.removeAll(keepingCapacity: true)
        }
    }
    if !word.isEmpty { words.insert(String(decoding: word, as: UTF8.self)) }
    return words
}
