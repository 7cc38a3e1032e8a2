import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: sessions that are bound to the key of a device.
@Suite struct DeviceKeyConformanceTests {
    private static let key = KeyThumbprint(bytes: .init(repeating: 7, count: 32))
    private static let other = KeyThumbprint(bytes: .init(repeating: 8, count: 32))

    private func audit(_ seconds: Int64, from address: String? = "192.0.2.7") -> AuditContext {
        var audit = AuditContext(now: at(seconds).now, address: address.flatMap { IPAddress(parsing: $0) })
        audit.notices = Set(NoticeTopic.allCases)
        return audit
    }

    private func refresh(
        _ session: WireID, _ counter: UInt64?, _ key: KeyThumbprint?, _ contract: ContractID = .dlauth, _ use: DeviceKeyUse = .offered
    ) -> RefreshRequest {
        var request = RefreshRequest(session: session, contract: contract, counter: counter, rule: RefreshRule(graceSeconds: 30))
        (request.deviceKey, request.keyUse) = (key, use)
        return request
    }

    private func opened(
        _ store: any AccountStore, _ key: KeyThumbprint?, _ contract: ContractID = .dlauth, email text: String = "ada@x"
    ) async throws -> (user: WireID, session: Session) {
        var new = NewAccount(id: newID(), openedBy: contract, email: try email(text), passwordHash: "hash")
        new.isEmailConfirmed = true
        var session = newSession(contract)
        session.deviceKey = key
        guard case .opened(let account, let session?) = try await store.open(new, session: session, audit(0)) else { throw Fault("taken") }
        return (account.id, session)
    }

    @Test(arguments: Backend.allCases)
    func aSessionKeepsItsKeyAndRefusesOthersWithoutEnding(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (user, session) = try await opened(store, Self.key)
        #expect(session.deviceKey == Self.key)
        #expect(try await bench.another().session(session.id)?.session == session)
        for step: UInt64 in 1...3 {
            let outcome = try await store.refresh(refresh(session.id, step, Self.key), audit(Int64(step)))
            guard case .issued(let signIn, .rotate) = outcome else { throw Fault("\(outcome)") }
            #expect(signIn.session?.deviceKey == Self.key)
        }
        // Every token that a thief may hold, for days, each way.
        let untouched = try await store.session(session.id)
        for day: Int64 in 1...3 {
            for counter: UInt64 in 1...5 {
                #expect(try await store.refresh(refresh(session.id, counter, nil), audit(day * 86_400)) == .refused(.unproven(.missing)))
                let wrong = refresh(session.id, counter, Self.other)
                #expect(try await store.refresh(wrong, audit(day * 86_400)) == .refused(.unproven(.otherKey)))
            }
        }
        #expect(try await store.session(session.id) == untouched)
        let kinds = try await store.auditEvents(of: user, before: nil, limit: 100).map(\.kind)
        #expect(kinds.filter { $0 == .deviceKeyRefused }.count == 3, "once a day")
        #expect(!kinds.contains(.refreshReuse))
        #expect(try await store.claimNotices(at: at(3 * 86_400).now, limit: 50).filter { $0.kind == .deviceKeyRefused }.count == 3)
        #expect(try await store.setPassword("new", of: user, keeping: session.id, audit(10)) != nil)
        #expect(try await store.session(session.id)?.session?.deviceKey == Self.key)
        // The owner's spent token is reuse as before.
        guard case .reused = try await store.refresh(refresh(session.id, 1, Self.key), audit(4 * 86_400)) else { throw Fault("not reused") }
    }

    @Test(arguments: Backend.allCases, [ContractID.dlauth, .password])
    func anOpenSessionTakesTheKeyOfItsRefresh(_ backend: Backend, _ contract: ContractID) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (user, session) = try await opened(store, nil, contract)
        let first: UInt64? = contract == .dlauth ? 1 : nil
        let second: UInt64? = contract == .dlauth ? 2 : nil
        #expect(try await store.refresh(refresh(session.id, first, nil, contract, .required), audit(1)) == .refused(.unproven(.missing)))
        guard case .issued = try await store.refresh(refresh(session.id, first, Self.key, contract), audit(2)) else {
            throw Fault("refused")
        }
        #expect(try await store.session(session.id)?.session?.deviceKey == Self.key)
        // The answer was lost; only its own device gets it again.
        guard case .issued = try await store.refresh(refresh(session.id, first, Self.key, contract), audit(3)) else {
            throw Fault("refused")
        }
        #expect(try await store.refresh(refresh(session.id, first, nil, contract), audit(4)) == .refused(.unproven(.missing)))
        // A server that refreshes for its caller has no key, and is no thief.
        #expect(try await store.refresh(refresh(session.id, second, nil, contract), audit(5, from: nil)) == .refused(.unproven(.missing)))
        let kinds = try await store.auditEvents(of: user, before: nil, limit: 100).map(\.kind)
        #expect(kinds.filter { $0 == .deviceKeyBound }.count == 1 && kinds.filter { $0 == .deviceKeyRefused }.count == 1)
        // A thief bound it: the owner's token from before shows that there are two, as a spent one always does.
        let stolen = try await opened(store, nil, contract, email: "c@x").session
        guard case .issued = try await store.refresh(refresh(stolen.id, first, Self.other, contract), audit(7)) else {
            throw Fault("refused")
        }
        if let second {
            guard case .issued = try await store.refresh(refresh(stolen.id, second, Self.other, contract), audit(8)) else {
                throw Fault("refused")
            }
            guard case .reused = try await store.refresh(refresh(stolen.id, first, nil, contract), audit(60)) else { throw Fault("kept") }
            #expect(try await store.session(stolen.id)?.session == nil)
        }
        let off = try await opened(bench.another(), nil, contract, email: "b@x").session
        guard case .issued = try await store.refresh(refresh(off.id, first, Self.key, contract, .off), audit(6)) else {
            throw Fault("refused")
        }
        #expect(try await store.session(off.id)?.session?.deviceKey == nil)
    }
}
