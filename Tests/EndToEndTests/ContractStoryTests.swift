import Foundation
import Stories
import TestThreads
import Testing

/// The case documents of the contracts, followed over a gateway that runs.
@Suite(.ownThread) struct ContractStoryTests {
    private static let stories: [Story] = {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "ContractsTests/Cases")
        do { return try StoryReader.all(in: folder) } catch { preconditionFailure("\(error)") }
    }()

    /// What only a world with a clock and a store of its own can do; the rest of such a story is left to it.
    private static let leftToOthers: Set = ["wait", "store", "import"]

    @Test(arguments: stories)
    func everyStoryHappensAsItIsTold(_ story: Story) async throws {
        var differences: [String] = []
        let world = try GatewayWorld()
        var runner = StoryRunner(world) { differences.append($0) }
        let steps = try await runner.run(story)
        if steps < story.steps.count { #expect(Self.isLeftToOthers(story.steps[steps])) }
        for difference in differences + world.faults { Issue.record("\(difference)") }
    }

    private static func isLeftToOthers(_ step: Step) -> Bool {
        if case .other(let words, _) = step.kind, let first = words.first { leftToOthers.contains(first) } else { false }
    }

    @Test func everyContractHasItsDocument() {
        #expect(
            Set(Self.stories.map(\.document)) == [
                "anonymous.md", "apple.md", "dlauth.md", "leaving.md", "merge.md", "ownership.md", "password.md", "provider.md",
            ])
    }
}
