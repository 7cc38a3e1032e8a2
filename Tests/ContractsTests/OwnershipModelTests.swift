import Accounts
import MemoryStore
import Storage
import Synchronization
import Testing
import Wire

/// Account take-over as a model. An attacker who reads only his own mailbox and an owner who reads only hers call the
/// contracts in thousands of random orders; whatever they do, nothing that the attacker holds opens an account in which
/// the owner's email is proven. The one exception is part of the model: a sign-up that the attacker began and that the owner
/// confirmed with a code of that sign-up, which the sign-up itself sent or which was asked for again.
@Suite struct OwnershipModelTests {
    private static let sequences = 500
    private static let steps = 24
    /// So many sequences share a world, each with addresses of its own.
    private static let shared = 25

    /// To repeat one sequence, set the first of `seeds` to the seed in the failure and `sequences` to 1.
    @Test(arguments: [0, 1_000_000, 2_000_000, 3_000_000] as [UInt64])
    func onlyTheProverOfAnEmailHasCredentialsOfItsAccount(_ seeds: UInt64) async throws {
        var reached: [AuditEvent.Kind: Int] = [:]
        var exceptions = 0
        let hashes = HashMemory()
        for first in stride(from: 0, to: Self.sequences, by: Self.shared) {
            let store = MemoryStore()
            let world = try ContractWorld(accounts: store)
            let mustConfirm = first / Self.shared % 2 == 1
            if mustConfirm { try await world.act(["world", "require-confirmed-email"]) }
            for number in first..<min(first + Self.shared, Self.sequences) {
                let seed = seeds + UInt64(number)
                var model = OwnershipModel(world, store, hashes: hashes, number: number, seed: seed)
                if let violation = try await Self.run(&model) {
                    Issue.record("seed \(seed), must confirm: \(mustConfirm): \(violation)\n\(model.history.joined(separator: "\n"))")
                    return
                }
                exceptions += model.everShared.count
                // Lets all attempt counts expire before the next sequence.
                try await world.wait(seconds: 7_200)
            }
            for account in try await store.accounts(after: nil, limit: 10_000) {
                for event in try await store.auditEvents(of: account.id, before: nil, limit: 100) { reached[event.kind, default: 0] += 1 }
            }
            await store.close()
        }
        // The sequences come where it matters.
        for kind in [
            AuditEvent.Kind.accountTaken, .emailConfirmed, .emailChanged, .emailReleased, .phoneChanged, .identityLinked, .passwordReset,
            .passwordChanged,
        ] { #expect(reached[kind, default: 0] > 0, "\(kind) never happened") }
        #expect(exceptions > 0, "no sign-up of the attacker was ever confirmed")
    }

    private static func run(_ model: inout OwnershipModel) async throws -> String? {
        for _ in 0..<steps {
            try await model.step()
            if let violation = try await model.violation() { return violation }
        }
        if let leftover = try await model.leftoverToken() { return leftover }
        try await model.world.wait(seconds: 3_600)
        return try await model.throwOut()
    }
}
