import Testing

@Suite struct DocumentTests {
    /// The README has at most 160 lines.
    private static let maxReadme = 160
    private static let maxGlossary = 60

    @Test func theReadmeIsShort() throws {
        let count = try lines(of: "README.md").count
        #expect(count <= Self.maxReadme, "README.md has \(count) lines: move something to docs/")
    }

    @Test func theGlossaryIsShort() throws {
        let words = try lines(of: "docs/glossary.md").filter { $0.hasPrefix("| **") }
        #expect(!words.isEmpty)
        #expect(words.count <= Self.maxGlossary, "the glossary has \(words.count) words: use the field's own")
    }

    @Test func everyLinkLeadsSomewhere() throws {
        for page in Documents.pages {
            for link in Documents.links(of: try page.text()) {
                guard let path = Documents.file(of: link.target, on: page.path) else { continue }
                let place = "\(page.path):\(link.line)"
                guard SourceTree.exists(path) else {
                    Issue.record("\(place): \(link.target) does not exist")
                    continue
                }
                let parts = link.target.split(separator: "#", maxSplits: 1)
                guard let anchor = parts.last, link.target.contains("#") else { continue }
                let anchors = Documents.anchors(of: try TreeFile(path: path).text())
                #expect(anchors.contains(String(anchor)), "\(place): \(path) has no heading for #\(anchor)")
            }
        }
    }

    @Test func everyPageIsLinkedFromAnother() throws {
        var linked: Set<String> = ["README.md"]
        for page in Documents.pages {
            linked.formUnion(
                Documents.links(of: try page.text()).compactMap { Documents.file(of: $0.target, on: page.path) }.filter { $0 != page.path })
        }
        for page in Documents.pages { #expect(linked.contains(page.path), "no page links to \(page.path)") }
    }

    @Test func picturesNeedNothingFromElsewhere() throws {
        for picture in SourceTree.files(in: "docs", suffixes: [".svg"]) {
            let text = try picture.text().replacing("http://www.w3.org/2000/svg", with: "")
            for word in ["http:", "https:", "@import", "@font-face", "<script", "<image"] {
                #expect(!text.contains(word), "\(picture.path) holds \(word)")
            }
            #expect(text.contains("prefers-color-scheme: dark") && text.contains("<title"), "\(picture.path)")
        }
    }

    private func lines(of path: String) throws -> [Substring] {
        var lines = try TreeFile(path: path).text().split(separator: "\n", omittingEmptySubsequences: false)
        if lines.last == "" { lines.removeLast() }
        return lines
    }
}

/// The reading of pages itself.
@Suite struct DocumentRuleTests {
    @Test func linksAreFoundOutsideOfCode() {
        let text = """
            # Limits and `limit=`
            See [one](a.md#b), ![two](../images/c.svg) and `[no](code)`.
            ```sh
            [no](fence)
            # no heading
            ```
            ## Why was it refused?
            """
        #expect(Documents.links(of: text) == [.init(line: 2, target: "a.md#b"), .init(line: 2, target: "../images/c.svg")])
        #expect(Documents.anchors(of: text) == ["limits-and-limit", "why-was-it-refused"])
    }

    @Test(arguments: [
        ("a.md", "docs/b.md", "docs/a.md"), ("../README.md", "docs/b.md", "README.md"), ("#here", "docs/b.md", "docs/b.md"),
        ("contracts/a.md#x", "docs/b.md", "docs/contracts/a.md"), ("docs/a.md", "README.md", "docs/a.md"), ("./a.md", "b.md", "a.md"),
    ])
    func linksAreResolvedFromTheirPage(_ target: String, _ page: String, _ file: String) {
        #expect(Documents.file(of: target, on: page) == file)
    }

    @Test func linksToElsewhereAreNoFiles() {
        #expect(Documents.file(of: "https://example.org/a", on: "README.md") == nil)
    }
}
