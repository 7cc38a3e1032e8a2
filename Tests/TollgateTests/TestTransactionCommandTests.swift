import Accounts
import Credentials
import Purchases
import System
import TestThreads
import Testing
import Threads
import Wire
import Workbench

@testable import tollgate

/// `purchases test-transaction` as a shell sees it: what it prints is a purchase for the gateway that knows its root.
@Suite(.ownThread) struct TestTransactionCommandTests {
    private let folder: TemporaryFolder
    private let envFile: String
    private let start = Moment(monotonic: moment(0), wall: WallTime(seconds: 1_800_000_000))
    private let account = "00000000-0000-4000-8000-000000000001"

    init() throws {
        folder = try TemporaryFolder()
        envFile = folder.path + "/a.env"
        let settings = """
            TOLLGATE_DATA_DIR=\(folder.path)
            TOLLGATE_TIERS=free premium
            TOLLGATE_PRODUCT_MONTHLY="tier=premium apple=gold"
            TOLLGATE_PURCHASES_APPLE="bundle-ids=test.app environments=sandbox roots=roots/new/root.pem"

            """
        try FileBytes.write(Array(settings.utf8), to: envFile)
    }

    /// On a thread of its own: a command blocks until tasks have answered.
    private func run(_ line: String) async throws -> CommandResult {
        let words = line.split(separator: " ").map(String.init) + ["--env-file", envFile]
        let runner = CommandRunner(environment: [], now: start, readInput: { "" })
        return try await withCheckedThrowingContinuation { continuation in
            do {
                _ = try WorkerThread(name: "command") { continuation.resume(returning: runner.run(words)) }
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }

    private func make(_ more: String = "") async throws -> CommandResult {
        try await run(
            "purchases test-transaction --account \(account) --product monthly --roots \(folder.path)/roots/new " + more)
    }

    private func storefront() throws -> AppleStorefront {
        let root = try FileBytes.read(folder.path + "/roots/new/root.pem", limit: 1 << 16)
        let plan = ApplePlan(bundleIDs: ["test.app"], environments: [.sandbox], signatures: try StoreSignatures(roots: root.rawBytes))
        return AppleStorefront(plan, StoreRequests { _ in fatalError("the store is asked") })
    }

    private func prove(_ result: CommandResult) async throws -> ProvenPurchase {
        try await storefront().prove(.apple(transaction: String(result.output.dropLast())), now: start.wall)
    }

    @Test func itPrintsPurchasesThatTheGatewayTakes() async throws {
        #expect(try await make().exitCode == 1)  // No account, but the root that the settings name.
        #expect(try await run("user create --id \(account) --email ada@example.org").exitCode == 0)
        let first = try await make()
        #expect(first.exitCode == 0, "\(first.errorOutput)")
        let proven = try await prove(first)
        guard case .status(_, let status) = proven.effects[0] else {
            Issue.record("no status")
            return
        }
        #expect(status.state == .active && status.product == "gold" && status.until == WallTime(seconds: start.wall.seconds + 30 * 86_400))
        #expect(proven.effects[1] == .owner(proven.key, try #require(UUID(parsing: account)), at: start.wall, told: start.wall))
        #expect(try FileBytes.stamp(folder.path + "/roots/new/root.key").mode == 0o600)
        // By the same root, and of the same purchase.
        let refund = try await prove(make("--refund --expires never"))
        guard case .ended(let ended) = refund.effects[2] else {
            Issue.record("no end")
            return
        }
        #expect(refund.key == proven.key && ended.state == .refunded && status.transactions == [ended.transaction])
        let body = try await make("--notification EXPIRED/VOLUNTARY").output
        let event = try await storefront().notification(Array(body.utf8), now: start.wall) { _ in nil }
        #expect(event.type == "EXPIRED/VOLUNTARY" && event.effects.count == 2)
        #expect(try await make("--json").output.hasPrefix(#"{"transaction":"ey"#))
        let byEmail = "purchases test-transaction --account ada@example.org --product gold --bundle test.app --roots \(folder.path)"
        #expect(try await run(byEmail).exitCode == 0)
    }

    @Test func faultsAreNamed() async throws {
        let cases = [
            ("", 1, "no account has the id or email"), ("--environment xcode", 2, "is no environment, write sandbox or production"),
            ("--expires soon", 2, "or never"),
        ]
        for (more, code, text) in cases {
            let result = try await make(more)
            #expect(result.exitCode == Int32(code) && result.errorOutput.contains(text), "\(result.errorOutput)")
        }
    }
}
