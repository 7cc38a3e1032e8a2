import Testing
import Wire

@testable import Settings

@Suite struct EnvFileTests {
    private func entries(_ text: String) -> [String] {
        let (entries, findings) = EnvFile.parse(Array(text.utf8), name: "f")
        #expect(findings.faults == [], "\(text)")
        return entries.map { "\($0.name)=\($0.value)@\($0.origin.text)" }
    }

    private func fault(_ text: String) -> [String] {
        EnvFile.parse(Array(text.utf8), name: "f").findings.faults.map(\.text)
    }

    static let values: [(String, String)] = [
        ("A=b", "b"), ("A=", ""), ("A= ", ""), ("A=# c", ""), ("A= # c", ""), ("A=\"\"", ""), ("A=''", ""),
        ("A=b c", "b c"), ("A=b c  ", "b c"), ("A=b # c", "b"), ("A=b\t# c", "b"), ("A=b#c", "b#c"), ("A=b=c", "b=c"),
        ("A='b # c'", "b # c"), ("A=\"b # c\" # d", "b # c"), ("A='b'\t", "b"), ("A='b\\'", "b\\"),
        ("A='$B \\n \"x\"'", "$B \\n \"x\""), ("A=\"\\\"x\\\"\"", "\"x\""), ("A=\"\\\\ \\$ \\` \\n\"", "\\ $ ` \\n"),
        ("A=$B", "$B"), ("A=\"${B}\"", "${B}"), ("export A=b", "b"), ("  export\tA=b", "b"), ("\tA=b", "b"),
        ("A=b\r", "b"), ("A=\"b\"\r", "b"), ("A=it's", "it's"), ("A=http://h/?x=1#y", "http://h/?x=1#y"), ("A=ü", "ü"),
    ]

    @Test(arguments: values) func aLineHasTheValueThatAShellWouldGiveItButForDollars(_ line: String, _ value: String) {
        #expect(entries(line) == ["A=\(value)@f:1"])
    }

    @Test func blankLinesAndCommentsCountAsLinesAndAsNothingElse() {
        #expect(entries("# one\n\n   # two\r\n\r\nA=1\n\nB=2\n") == ["A=1@f:5", "B=2@f:7"])
        #expect(entries("\u{FEFF}A=1") == ["A=1@f:1"])
        #expect(entries("") == [])
        #expect(entries("export=1") == ["export=1@f:1"])
    }

    static let bad: [(String, String)] = [
        ("A", "f:1: is no setting, write NAME=value or begin a comment with #"),
        ("1A=b", "f:1: is no setting, write NAME=value or begin a comment with #"),
        ("=b", "f:1: is no setting, write NAME=value or begin a comment with #"),
        ("A-B=c", "f:1: is no setting, write NAME=value or begin a comment with #"),
        ("export", "f:1: is no setting, write NAME=value or begin a comment with #"),
        ("A =b", "f:1: A: has a space before the =, write A=value"),
        ("A= b", "f:1: A: has a space after the =, write A=value"),
        ("A=\"b", "f:1: A: has an opening quote and no closing one, end the value with \""),
        ("A='b", "f:1: A: has an opening quote and no closing one, end the value with '"),
        ("A=\"b\\\"", "f:1: A: has an opening quote and no closing one, end the value with \""),
        ("A=\"b\"c", "f:1: A: has text after the closing quote, put the whole value inside the quotes"),
        ("A='b' c", "f:1: A: has text after the closing quote, put the whole value inside the quotes"),
        ("A='b'#c", "f:1: A: has text after the closing quote, put the whole value inside the quotes"),
        ("A=b\u{0}c", "f:1: contains a control character, remove it"),
        ("A=b\rc", "f:1: contains a control character, remove it"),
        ("A=1\nB=2\nA=3", "f:3: A: is set twice in this file, first in line 1, keep one of them"),
    ]

    @Test(arguments: [[0xFF, 0xFE, 0x41, 0, 0x3D, 0, 0x0A, 0], [0xFE, 0xFF, 0, 0x41, 0, 0x3D, 0, 0x0A]])
    func aFileInUTF16IsNamedAsSuch(_ bytes: [UInt8]) {
        #expect(EnvFile.parse(bytes, name: "f").findings.faults.map(\.text) == ["f:1: is UTF-16, save the file as UTF-8"])
    }

    @Test(arguments: bad) func ambiguousLinesAreFaults(_ text: String, _ message: String) {
        #expect(fault(text) == [message])
    }

    @Test func bytesThatAreNoTextAreAFaultWithTheirLine() {
        let parsed = EnvFile.parse(Array("A=1\nB=".utf8) + [0xFF, 0x0A], name: "f")
        #expect(parsed.findings.faults.map(\.text) == ["f:2: B: is not UTF-8, save the file as UTF-8"])
        #expect(parsed.entries.map(\.name) == ["A"])
    }

    @Test func aFileWithoutEndIsNotRead() {
        let (entries, findings) = EnvFile.parse([UInt8](repeating: 10, count: EnvFile.maximumBytes + 1), name: "f")
        #expect(entries == [])
        #expect(findings.faults.map(\.text) == ["f:1: is larger than 16 MiB, give a smaller env file"])
    }

    @Test func goodLinesAreReadBesideBadOnes() {
        let (entries, findings) = EnvFile.parse(Array("A=1\nB\nC=3".utf8), name: "f")
        #expect(entries.map(\.name) == ["A", "C"])
        #expect(findings.faults.count == 1)
    }

    /// For random bytes: parsing ends; each line gives at most one entry or one fault; and an entry written out
    /// again in single quotes is the same entry.
    @Test func noBytesTrapAndEveryValueSurvivesBeingWrittenOut() {
        var random = SplitMix64(seed: 0xE4F)
        let pieces: [[UInt8]] = ["A=", "export ", "\"", "'", "\\", "#", " ", "\n", "\r\n", "=", "B", "ü", "TOLLGATE_X="].map {
            Array($0.utf8)
        }
        for _ in 0..<6000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0...24, using: &random) {
                bytes +=
                    Bool.random(using: &random)
                    ? pieces.randomElement(using: &random) ?? [] : [UInt8.random(in: 0...255, using: &random)]
            }
            let (entries, findings) = EnvFile.parse(bytes, name: "f")
            let lines = bytes.split(separator: 10, omittingEmptySubsequences: false).count
            #expect(entries.count + findings.faults.count <= lines)
            for entry in entries where !entry.value.contains("'") {
                let again = EnvFile.parse(Array("\(entry.name)='\(entry.value)'".utf8), name: "f").entries
                #expect(again.map(\.value) == [entry.value], "\(bytes)")
            }
        }
    }
}
