import Foundation
import Stories
import Testing

/// The case documents, followed over the contracts alone.
@Suite struct StoryTests {
    private static let stories = stories("Cases")
    /// Over stores that no gateway has.
    private static let storiesOfPurchases = stories("Cases/Purchases")
    private static let storiesOfAccounts = stories("Cases/Account")

    private static func stories(_ folder: String) -> [Story] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: folder)
        do { return try StoryReader.all(in: folder) } catch { preconditionFailure("\(error)") }
    }

    @Test(arguments: stories + storiesOfPurchases + storiesOfAccounts)
    func everyStoryPasses(_ story: Story) async throws {
        var differences: [String] = []
        let world = try ContractWorld()
        var runner = StoryRunner(world) { differences.append($0) }
        let steps = try await runner.run(story)
        #expect(steps == story.steps.count)
        for difference in differences { Issue.record("\(difference)") }
    }

    @Test func everyContractHasItsDocument() {
        let documents = Set(Self.stories.map(\.document))
        #expect(
            documents == ["anonymous.md", "apple.md", "dlauth.md", "leaving.md", "merge.md", "ownership.md", "password.md", "provider.md"])
    }
}
