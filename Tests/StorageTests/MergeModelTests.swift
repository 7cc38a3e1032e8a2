import Accounts
import Credentials
import Testing
import Wire

/// Merges as a service follows them that crashes anywhere. Guests and accounts come, are merged in any order, also guests of guests, and send
/// requests; requests and answers are late, lost and repeated. Whatever happens, in the end every row of the service has exactly one owner,
/// who is there.
@Suite struct MergeModelTests {
    private static let steps = 100

    /// To repeat one sequence, begin with the seed in the failure.
    @Test(arguments: Backend.allCases) func everyRowHasOneOwner(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        var (merged, crashed) = (0, 0)
        for seed in 0..<UInt64(backend == .sqlite ? 60 : 12) {
            var model = MergeModel(bench.store, seed: seed)
            for _ in 0..<Self.steps { try await model.step() }
            try await model.settle()
            #expect(try await model.violation() == nil, "seed \(seed)")
            merged += model.merged
            crashed += model.service.crashes
        }
        #expect(merged > 30 && crashed > 3, "the sequences come where it matters: \(merged), \(crashed)")
    }
}

/// A service with rows of users. It writes the new owner of a row before it removes the old one, and both are not one step.
private struct RowService {
    /// The owners of each row.
    var rows: [Set<WireID>] = []
    /// Ids whose rows were moved, or are being moved.
    private var successors: [WireID: WireID] = [:]
    private(set) var crashes = 0

    private func owner(_ user: WireID) -> WireID {
        var user = user
        while let next = successors[user] { user = next }
        return user
    }

    /// Follows what is announced, and adds a row for the user; false if it crashes, which happens before step `fuse`.
    mutating func handle(_ request: MergeModel.Request, crashingBefore fuse: Int) -> Bool {
        var left = fuse
        func isCrash() -> Bool {
            left -= 1
            return left < 0
        }
        let user = owner(request.user)
        for from in request.announced where from != user {
            // First of all: what is still written for that id from now on goes to the new owner.
            successors[from] = user
            for row in rows.indices where rows[row].contains(from) {
                if isCrash() { return crash() }
                rows[row].insert(user)
                if isCrash() { return crash() }
                rows[row].remove(from)
            }
        }
        rows.append([user])
        return true
    }

    private mutating func crash() -> Bool {
        crashes += 1
        return false
    }
}

private struct MergeModel {
    /// A request as the gateway passes it on: the user, and the merges that are announced of it at that moment.
    struct Request {
        let user: WireID
        let announced: [WireID]
    }

    private let store: any AccountStore
    private var random: Draw
    private var people: [SignIn] = []
    /// Requests on their way to the service, and merges that it has answered for.
    private var requests: [Request] = []
    private var answers: [(from: WireID, user: WireID)] = []
    private(set) var service = RowService()
    private(set) var merged = 0
    private let names: UInt64

    init(_ store: any AccountStore, seed: UInt64) {
        self.store = store
        (random, names) = (Draw(seed: seed), seed)
    }

    mutating func step() async throws {
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1: people.append(try await store.guest())
        case 2: people.append(try await store.opened("u\(people.count)-\(requests.count)-\(service.rows.count)-\(names)@x"))
        case 3, 4:
            guard let giver = people.randomElement(using: &random), let taker = people.randomElement(using: &random) else { return }
            if case .merged(_, _, isRepeated: false) = try await store.merge(giver, into: taker) { merged += 1 }
        case 5, 6, 7: if let person = people.randomElement(using: &random) { try await send(person.account.id) }
        case 8, 9, 10: deliver(crashingBefore: Int.random(in: 0..<5, using: &random))
        default: try await report()
        }
    }

    /// A request of an account that is there.
    private mutating func send(_ user: WireID) async throws {
        guard let announced = try await store.merges(of: user) else { return }
        requests.append(Request(user: user, announced: announced))
    }

    /// Any of those on their way; its answer may be lost.
    private mutating func deliver(crashingBefore fuse: Int) {
        guard let index = requests.indices.randomElement(using: &random) else { return }
        let request = requests.remove(at: index)
        guard service.handle(request, crashingBefore: fuse), Int.random(in: 0..<4, using: &random) > 0 else { return }
        answers += request.announced.map { ($0, request.user) }
    }

    /// The gateway takes an answer, sometimes twice.
    private mutating func report() async throws {
        guard let index = answers.indices.randomElement(using: &random) else { return }
        let answer = answers[index]
        if Bool.random(using: &random) { answers.remove(at: index) }
        _ = try await store.mergeDone(from: answer.from, to: answer.user, at(20))
    }

    /// All that is on its way arrives, and everybody goes on until nothing is announced.
    mutating func settle() async throws {
        while !requests.isEmpty { deliver(crashingBefore: .max) }
        while !answers.isEmpty { try await report() }
        for person in people {
            while let announced = try await store.merges(of: person.account.id), !announced.isEmpty {
                try await send(person.account.id)
                while !requests.isEmpty { deliver(crashingBefore: .max) }
                while !answers.isEmpty { try await report() }
            }
        }
    }

    func violation() async throws -> String? {
        for (row, owners) in service.rows.enumerated() {
            guard let owner = owners.first, owners.count == 1 else { return "row \(row) has \(owners.count) owners" }
            if try await store.account(owner) == nil { return "the owner of row \(row) is not there" }
        }
        return nil
    }
}

/// Numbers that are the same for the same seed.
private struct Draw: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// SplitMix64.
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}
