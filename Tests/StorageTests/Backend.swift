import Accounts
import Credentials
import Foundation
import Storage
import Synchronization
import TestServers
import Threads
import Wire

/// Where accounts may live: every rule below holds for all of them.
enum Backend: String, CaseIterable, Sendable {
    case sqlite, postgres

    /// An empty store.
    func bench() throws -> Bench {
        switch self {
        case .sqlite: try Bench(sqlite: Folder())
        case .postgres: try Bench(url: PostgresCluster.shared.get().newDatabase())
        }
    }
}

/// A store for one test, with its files or database.
final class Bench: Sendable {
    let store: any AccountStore
    /// Opens the same database again.
    let location: StoreLocation
    private let folder: Folder?

    init(sqlite folder: Folder) throws {
        let location = try StoreLocation(url: "sqlite://" + folder.path + "/accounts.db")
        store = try Self.open(location)
        self.location = location
        self.folder = folder
    }

    init(url: String) throws {
        let location = try StoreLocation(url: url)
        store = try Self.open(location)
        self.location = location
        folder = nil
    }

    /// Called last: until then the folder stays.
    func end() { folder?.remove() }

    /// Another store over the same database, as another gateway has it.
    func another() throws -> any AccountStore { try Self.open(location) }

    static func open(_ location: StoreLocation) throws -> any AccountStore {
        let store = location.open(connections: 4, start: WorkerThread.start)
        guard let store else { throw Fault("the system gives no threads") }
        return store
    }
}

/// A value that other threads change.
final class Noted<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    var now: Value { value.withLock { $0 } }

    func change(_ body: (inout Value) -> Void) { value.withLock { body(&$0) } }
}

/// A fault of a test's environment.
struct Fault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A folder that goes away with its owner, on a disk in memory if there is one: the programs that share a file wait two seconds for each
/// other at most, and a slow disk would take these for its syncs. No test takes the power away.
final class Folder: Sendable {
    let path: String

    init() throws {
        let parent = FileManager.default.isWritableFile(atPath: "/dev/shm") ? "/dev/shm" : "/tmp"
        var template = Array("\(parent)/tollgate-storage-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Fault("no folder in \(parent)") }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }

    deinit { remove() }
}

let start = WallTime(seconds: 1_700_000_000)

func at(_ seconds: Int64, from address: String? = "192.0.2.7") -> AuditContext {
    AuditContext(now: WallTime(seconds: start.seconds + seconds), address: address.flatMap { IPAddress(parsing: $0) })
}

/// For sweeps that may go to any time up to their own.
let anyStride: Int64 = 100 * 365 * 86_400

/// An id of ours, where Foundation has one too.
typealias WireID = Wire.UUID

/// Ids in the order of their making.
func newID() -> WireID {
    Wire.UUID(
        high: ids.withLock {
            $0 += 1; return $0
        }, low: 0x8000_0000_0000_0000)
}
private let ids = Mutex<UInt64>(0)

func newSession(_ contract: ContractID = .dlauth) -> NewSession {
    NewSession(id: newID(), contract: contract, device: "App/1.0 ä")
}

func email(_ text: String) throws -> EmailAddress { try EmailAddress(text) }

extension AccountStore {
    /// Opens an account with this email and a session.
    func opened(
        _ text: String?, hash: String? = "hash", contract: ContractID = .dlauth, at audit: AuditContext = at(0)
    ) async throws -> SignIn {
        let account = NewAccount(
            id: newID(), openedBy: contract, email: try text.map { try EmailAddress($0) }, passwordHash: hash)
        switch try await open(account, session: newSession(contract), audit) {
        case .opened(let account, let session): return SignIn(account: account, session: session)
        case .emailTaken: throw Fault("the email \(text ?? "") is taken")
        }
    }

    func refresh(
        _ session: Session?, _ counter: UInt64?, _ contract: ContractID = .dlauth, at seconds: Int64
    ) async throws -> RefreshOutcome {
        let request = RefreshRequest(
            session: session?.id ?? newID(), contract: contract, counter: counter, rule: RefreshRule(graceSeconds: 30))
        return try await refresh(request, at(seconds))
    }
}

extension Result {
    /// Why a call was refused; nil if it was not.
    var refusal: Failure? {
        if case .failure(let refusal) = self { refusal } else { nil }
    }
}

/// The fault of a store call; nil if it succeeds.
func fault(_ body: () async throws -> Void) async -> StoreFault? {
    do {
        try await body()
        return nil
    } catch {
        return error as? StoreFault
    }
}

extension StoreFault {
    /// Why the store is unavailable, if it is.
    var absence: String? {
        switch self {
        case .unavailable(let reason), .busy(let reason): reason
        case .failed, .banned: nil
        }
    }

    /// Why it failed for good, if it did.
    var failure: String? {
        switch self {
        case .failed(let reason): reason
        case .unavailable, .busy, .banned: nil
        }
    }
}

extension SignIn {
    var sessionIDs: [Wire.UUID] { session.map { [$0.id] } ?? [] }
}

extension RefreshOutcome {
    var verdict: RefreshVerdict? {
        switch self {
        case .issued(_, let verdict): verdict
        case .refused, .reused: nil
        }
    }

    var counter: UInt64? {
        switch self {
        case .issued(let signIn, _): signIn.session?.counter
        case .refused, .reused: nil
        }
    }
}

extension Redemption {
    var signIn: SignIn? {
        switch self {
        case .proven(let signIn): signIn
        case .wrongCode, .refused: nil
        }
    }
}
