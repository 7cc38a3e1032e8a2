import Credentials
import Testing
import Wire

@testable import Accounts

private let start = WallTime(seconds: 1_000_000)

private func session(
    _ contract: ContractID = .dlauth, counter: UInt64 = 5, isConfirmed: Bool = false, rotatedAgo: Int64 = 0
) -> Session {
    let new = NewSession(id: UUID(high: 1, low: 1), contract: contract, device: nil)
    var session = Session(new, user: UUID(high: 2, low: 2), now: start)
    session.counter = counter
    session.isConfirmed = isConfirmed
    session.rotatedAt = WallTime(seconds: start.seconds - rotatedAgo)
    return session
}

/// The table of what a refresh token does, as the contracts page has it.
@Suite struct RefreshRuleTests {
    private let rule = RefreshRule(graceSeconds: 30)

    private func verdict(_ counter: UInt64?, _ session: Session, contract: ContractID = .dlauth) -> RefreshVerdict {
        rule.verdict(counter: counter, contract: contract, session: session, now: start)
    }

    @Test func theCurrentTokenTakesAStep() {
        for isConfirmed in [false, true] { #expect(verdict(5, session(isConfirmed: isConfirmed)) == .rotate) }
    }

    @Test(arguments: [
        (false, 0, RefreshVerdict.again), (false, 29, .again), (false, 30, .again), (false, 86_400 * 20, .again), (true, 0, .again),
        (true, 29, .again), (true, 30, .reuse), (true, 86_400, .reuse), (true, -3_600, .again),
    ] as [(Bool, Int64, RefreshVerdict)])
    func theOneBeforeGetsTheSamePairUntilThatHasArrivedAndIsReuseThen(_ isConfirmed: Bool, _ ago: Int64, _ expected: RefreshVerdict) {
        #expect(verdict(4, session(isConfirmed: isConfirmed, rotatedAgo: ago)) == expected)
    }

    @Test func anOlderOneIsReuse() {
        for counter: UInt64 in [3, 1, 0] { #expect(verdict(counter, session()) == .reuse) }
    }

    @Test func oneThatWasNeverHandedOutIsRefused() {
        for counter: UInt64 in [6, .max] { #expect(verdict(counter, session()) == .refuse(.ahead)) }
    }

    @Test func aTokenOfAnotherContractDoesNothing() {
        for contract in ContractID.allCases where contract != .dlauth {
            for counter: UInt64? in [nil, 1, 4, 5, 6] {
                #expect(verdict(counter, session(), contract: contract) == .refuse(.wrongContract))
            }
        }
    }

    @Test func aTokenThatDoesNotRotateOnlyBringsAnAccessToken() {
        #expect(verdict(nil, session(.password, counter: 1), contract: .password) == .keep)
        #expect(verdict(1, session(.password, counter: 1), contract: .password) == .refuse(.wrongContract))
        #expect(verdict(nil, session()) == .refuse(.wrongContract))
        #expect(verdict(nil, session(.apple, counter: 1), contract: .apple) == .refuse(.wrongContract))
    }

    @Test func aSessionWhoseTimeIsOverIsNotRefreshed() {
        var over = session()
        over.idleDeadline = start
        for counter: UInt64 in [1, 4, 5, 6] { #expect(verdict(counter, over) == .refuse(.expired)) }
        over.idleDeadline = WallTime(microseconds: start.microseconds + 1)
        #expect(verdict(5, over) == .rotate)
    }

    @Test func aStepMovesTheDeadlineAndAwaitsConfirmation() {
        var session = session(isConfirmed: true)
        let later = start.advanced(seconds: 100)
        session.rotate(at: later)
        #expect(session.counter == 6)
        #expect(!session.isConfirmed)
        #expect(session.idleDeadline == later.advanced(seconds: 30 * 86_400))
        #expect(session.lastUsedAt == later)
    }

    @Test func tenStepsInTenSecondsAreAStorm() {
        var session = session(counter: 1)
        for counter in UInt64(1)...10 {
            #expect(verdict(counter, session) == .rotate)
            session.rotate(at: start)
        }
        #expect(verdict(11, session) == .storm)
        #expect(verdict(10, session) == .again)
        let after = start.advanced(seconds: 10)
        #expect(rule.verdict(counter: 11, contract: .dlauth, session: session, now: after) == .rotate)
        session.rotate(at: after)
        #expect(rule.verdict(counter: 12, contract: .dlauth, session: session, now: after) == .rotate)
    }

    @Test func aClockThatWasSetBackMakesNoStorm() {
        var session = session()
        for _ in 0..<10 { session.rotate(at: start) }
        let before = start.advanced(seconds: -3_600)
        #expect(rule.verdict(counter: 15, contract: .dlauth, session: session, now: before) == .rotate)
    }
}

/// Whoever proves an address owns it.
@Suite struct ContactProofRuleTests {
    private static let caller = UUID(high: 0, low: 1)
    private static let other = UUID(high: 0, low: 2)
    private static let proven = ContactHolder(user: other, isConfirmed: true, openedBy: .dlauth)
    private static let unproven = ContactHolder(user: other, isConfirmed: false, openedBy: .dlauth)
    private static let ownProven = ContactHolder(user: caller, isConfirmed: true, openedBy: .anonymous)
    private static let ownUnproven = ContactHolder(user: caller, isConfirmed: false, openedBy: .password)

    @Test(arguments: [
        (.completeSignUp(.dlauth), nil, .refuse(.noAccount)), (.completeSignUp(.dlauth), proven, .confirm(other)),
        (.completeSignUp(.dlauth), unproven, .confirm(other)), (.completeSignUp(.password), unproven, .takeOver(other)),
        (.completeSignUp(.password), proven, .confirm(other)),
        (.signIn, nil, .refuse(.noAccount)), (.signIn, proven, .confirm(other)), (.signIn, unproven, .takeOver(other)),
        (.link(caller: caller), nil, .attach(to: caller, releasing: nil)), (.link(caller: caller), proven, .confirm(other)),
        (.link(caller: caller), unproven, .takeOver(other)), (.link(caller: caller), ownProven, .confirm(caller)),
        (.link(caller: caller), ownUnproven, .confirm(caller)),
        (.change(caller: caller), nil, .attach(to: caller, releasing: nil)), (.change(caller: caller), proven, .refuse(.taken)),
        (.change(caller: caller), unproven, .attach(to: caller, releasing: other)), (.change(caller: caller), ownProven, .confirm(caller)),
        (.change(caller: caller), ownUnproven, .confirm(caller)),
    ] as [(ContactProof, ContactHolder?, ContactVerdict)])
    func aProofLeadsToOneAccount(_ proof: ContactProof, _ holder: ContactHolder?, _ expected: ContactVerdict) {
        #expect(ContactProofRule.verdict(proof, holder: holder) == expected)
    }

    @Test(arguments: [
        (other, proven, .known(other)), (other, nil, .known(other)), (caller, unproven, .known(caller)), (nil, nil, .create),
        (nil, proven, .link(other)), (nil, unproven, .takeOver(other)),
    ] as [(UUID?, ContactHolder?, IdentityVerdict)])
    func anIdentityLeadsToOneAccount(_ linked: UUID?, _ holder: ContactHolder?, _ expected: IdentityVerdict) {
        #expect(IdentityRule.verdict(linked: linked, holder: holder) == expected)
    }
}

/// When a name that comes along is stored.
@Suite struct NameRuleTests {
    @Test(arguments: [
        (NameRule.first, false, 0, true), (.first, false, 1_000, true), (.first, true, 0, false), (.firstOrFresh, false, 1_000, true),
        (.firstOrFresh, true, 4, true), (.firstOrFresh, true, 5, false),
    ] as [(NameRule, Bool, Int64, Bool)])
    func aNameIsTakenOnceOrWhileTheAccountIsNew(_ rule: NameRule, _ hasName: Bool, _ age: Int64, _ expected: Bool) throws {
        var account = Account(id: UUID(high: 0, low: 1), openedBy: .apple, createdAt: start, updatedAt: start)
        if hasName { account.name = try PersonName(given: "Ada", family: nil) }
        #expect(rule.takes(account, now: start.advanced(seconds: age)) == expected)
    }
}

/// What a try at a code does.
@Suite struct CodeRuleTests {
    private let right = [UInt8](repeating: 1, count: 32)
    private let wrong = [UInt8](repeating: 2, count: 32)

    private func verdict(_ digest: [UInt8], triesLeft: Int64 = 5, at now: WallTime = start) -> CodeVerdict {
        let code = PendingCode(
            purpose: .email, recipient: "a@b", digest: right, expiresAt: start.advanced(seconds: 600), triesLeft: triesLeft)
        return code.verdict(digest: digest, now: now)
    }

    @Test func theRightCodeIsRightUntilItExpires() {
        #expect(verdict(right) == .right)
        #expect(verdict(right, triesLeft: 1) == .right)
        #expect(verdict(right, at: start.advanced(seconds: 599)) == .right)
        #expect(verdict(right, at: start.advanced(seconds: 600)) == .dead)
    }

    @Test func theFifthWrongTryIsTheLast() {
        #expect(verdict(wrong) == .wrong)
        #expect(verdict(wrong, triesLeft: 2) == .wrong)
        #expect(verdict(wrong, triesLeft: 1) == .dead)
        #expect(verdict(right, triesLeft: 0) == .dead)
    }
}
