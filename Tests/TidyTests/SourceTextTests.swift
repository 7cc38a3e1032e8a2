import Testing

/// The splitter of code, comments and strings, on which all other rules depend.
@Suite struct SourceTextTests {
    @Test(arguments: [
        ("let a = 1", "let a = 1"), ("a // try!", "a "), ("/* try! */ b", "b"), (#"x("try!") y"#, #"x("") y"#),
        (#"x("a\"try!") y"#, #"x("") y"#), (##"x(#"a"try!"#) y"##, ##"x(#""#) y"##), (#"x("\(f(a["k"]))") y"#, #"x("\(f(a[""]))") y"#),
        (#"x("//") y"#, #"x("") y"#), ("/* /* a */ try! */ b", "b"),
    ])
    func commentsAndStringContentsAreNoCode(_ source: String, _ code: String) {
        let read = SourceText.lines(of: source).map(\.code).joined(separator: "\n")
        #expect(read.filter { $0 != " " } == code.filter { $0 != " " })
    }

    @Test func linesKeepTheirNumbersAndTheirComments() {
        let lines = SourceText.lines(of: "a\n// why\nb /* c\nd */ e\n\"\"\"\n  try!\n  \"\"\"\nf")
        #expect(lines.map(\.number) == Array(1...8))
        #expect(lines.map(\.hasComment) == [false, true, true, true, false, false, false, false])
        #expect(lines[5].code.contains("try!") == false)
        #expect(lines[7].code == "f")
    }
}
