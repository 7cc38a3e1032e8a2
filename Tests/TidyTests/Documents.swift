/// The documents: `README.md` and the pages below `docs`.
enum Documents {
    static let readme = TreeFile(path: "README.md")
    static var pages: [TreeFile] { [readme] + SourceTree.files(in: "docs", suffixes: [".md"]) }

    /// One `[text](target)` or `![text](target)`.
    struct Link: Equatable {
        let line: Int
        let target: String
    }

    /// The links of a page, except in code.
    static func links(of text: String) -> [Link] {
        prose(of: text).flatMap { number, line in
            let spoken = line.replacing(/`[^`]*`/, with: "")
            return spoken.matches(of: /\]\(([^)\s]+)\)/).map { Link(line: number, target: String($0.output.1)) }
        }
    }

    /// The anchors of a page's headings, as the sites that show Markdown make them.
    static func anchors(of text: String) -> Set<String> {
        Set(
            prose(of: text).filter { $1.hasPrefix("#") }.map { _, line in
                let words = line.drop { $0 == "#" }.drop { $0 == " " }.lowercased()
                return words.filter { $0.isLetter || $0.isNumber || " -_".contains($0) }.replacing(" ", with: "-")
            })
    }

    /// The file that a link on `page` leads to, from the root of the package; nil for one out of the package.
    static func file(of target: String, on page: String) -> String? {
        guard !target.contains("://"), !target.hasPrefix("mailto:") else { return nil }
        let path = target.prefix { $0 != "#" }
        guard !path.isEmpty else { return page }
        var parts = page.split(separator: "/").dropLast().map(String.init)
        for part in path.split(separator: "/").map(String.init) where part != "." {
            if part == ".." { _ = parts.popLast() } else { parts.append(part) }
        }
        return parts.joined(separator: "/")
    }

    /// The numbered lines that are not in a fenced block.
    private static func prose(of text: String) -> [(number: Int, line: String)] {
        var isFenced = false
        return text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap { index, line in
            if line.hasPrefix("```") { isFenced.toggle() }
            return isFenced || line.hasPrefix("```") ? nil : (index + 1, String(line))
        }
    }
}
