import Foundation
import TestThreads
import Testing

/// The pages whose examples are promised to run.
private let pagesWithExamples: Set<String> = [
    "README.md", "docs/accounts.md", "docs/admin-api.md", "docs/cors.md", "docs/filtering.md", "docs/identity.md", "docs/limits.md",
    "docs/operations.md", "docs/purchases.md", "docs/sessions.md",
    "docs/contracts/anonymous.md", "docs/contracts/apple.md", "docs/contracts/dlauth.md", "docs/contracts/password.md",
    "docs/contracts/provider.md",
]

/// The documents as their readers use them: each page's commands run from top to bottom against what `deploy/up` starts, and
/// print what the page prints.
@Suite(.ownThread) struct DocumentExampleTests {
    @Test func thePagesThatPromiseExamplesHaveSome() throws {
        let pages = try DocumentPage.all()
        #expect(pagesWithExamples.isSubset(of: pages.map(\.path)))
        for page in pages {
            let hasExamples = pagesWithExamples.contains(page.path) || page.path == DjangoPageTests.page
            #expect(try page.steps().isEmpty == !hasExamples, "\(page.path)")
            for block in page.blocks {
                let known = ["console", "env", "text", "sh", "json", "swift", "ini", "nginx", "yaml", "caddy", "python", "kotlin"].contains(
                    block.language)
                #expect(known, "\(page.path):\(block.line): mark the block: console runs, env is set, text and sh are neither")
            }
        }
    }

    @Test(arguments: try DocumentPage.all().filter { !$0.settings.isEmpty || pagesWithExamples.contains($0.path) })
    func everyExampleRunsAsItIsPrinted(_ page: DocumentPage) async throws {
        let shell = try DocumentShell(settings: page.settings)
        for step in try page.steps() {
            var printed = try shell.run(step.command)
            // What was changed a moment ago may count at the next look only.
            var looks = 0
            while isLook(step.command), !DocumentOutput.matches(step.output, printed), looks < 300 {
                try await Task.sleep(for: .milliseconds(100))
                printed = try shell.run(step.command)
                looks += 1
            }
            try #require(
                DocumentOutput.matches(step.output, printed),
                "\(page.path):\(step.line): \(step.command) prints\n\(printed.joined(separator: "\n"))")
        }
    }

    /// Whether a command changes nothing and keeps nothing, so that it may be asked again.
    private func isLook(_ command: String) -> Bool {
        let words = command.split(separator: " ")
        guard words.first == "curl" || words.first == "grep" || command.hasPrefix("tollgate outbox") else { return false }
        return !words.contains { $0.hasPrefix("-d") || $0 == "-X" || $0 == "tee" || $0.hasPrefix(">") }
    }
}

/// The reading of pages itself.
@Suite(.ownThread) struct DocumentPageTests {
    @Test func aPageIsCommandsWithTheirOutput() throws {
        let text = """
            Text with `$ no command`.
            ```console
            $ echo one \\
              two
            one two

            $ cat > a <<END
            $ not a command
            END
            $ cat a
            $ not a command
            ```
            ```env
            A=1
            ```
            ```sh
            $ rm -r everything
            ```
            """
        let page = DocumentPage("a.md", text.replacing("$ cat a\n$ not a command\n", with: "$ cat a\n…\n"))
        #expect(page.settings == ["A=1"])
        let steps = try page.steps()
        #expect(steps.map(\.command) == ["echo one \\\n  two", "cat > a <<END\n$ not a command\nEND", "cat a"])
        #expect(steps.map(\.output) == [["one two", ""], [], ["…"]])
        #expect(steps.map(\.line) == [3, 7, 10])
    }

    @Test func outputWithoutACommandIsAMistake() {
        #expect(throws: Fault.self) { try DocumentPage("a.md", "```console\nTOKEN=1\n```").steps() }
    }

    @Test(arguments: [
        (["a"], ["a"], true), (["a"], ["b"], false), (["a"], ["a", "b"], false), (["a", "b"], ["a"], false), ([], [], true),
        (["a …"], ["a b"], true), (["a…c"], ["abbc"], true), (["a…c"], ["abcd"], false), (["a…b…c"], ["a1b2b3c"], true),
        (["…"], [], true), (["…", "b"], ["a", "a", "b"], true), (["…", "b"], ["b", "a"], false), (["a", "…"], ["a"], true),
        (["a", "…", "b", "…", "c"], ["a", "1", "b", "2", "b", "c"], true), (["a"], ["a \r", "", ""], true),
        (["…", "a …"], ["x", "a b"], true), (["", "a"], ["", "a"], true), (["a", "", "b"], ["a", "b"], false),
    ])
    func dotsStandForAnything(_ expected: [String], _ printed: [String], _ isSame: Bool) {
        #expect(DocumentOutput.matches(expected, printed) == isSame)
    }
}
