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

/// The table of refresh verdicts in the contracts page.
@Suite struct RefreshRuleTests {
    private let rule = RefreshRule(graceSeconds: 30)

    private func verdict(_ counter: UInt64?, _ session: Session, contract: ContractID = .dlauth) -> RefreshVerdict {
        rule.verdict(counter: counter, contract: contract, session: session, now: start)
    }

    @Test func theCurrentTokenTakesAStep() {
        for isConfirmed in [false, true] { #expect(verdict(5, session(isConfirmed: isConfirmed)) == .rotate) }
    }

    @Test(
        arguments: [
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
        session.rotate(at: later, idleSeconds: 30 * 86_400)
        #expect(session.counter == 6)
        #expect(!session.isConfirmed)
        #expect(session.idleDeadline == later.advanced(seconds: 30 * 86_400))
        #expect(session.lastUsedAt == later)
    }

    @Test func tenStepsInTenSecondsAreAStorm() {
        var session = session(counter: 1)
        for counter in UInt64(1)...10 {
            #expect(verdict(counter, session) == .rotate)
            session.rotate(at: start, idleSeconds: 30 * 86_400)
        }
        #expect(verdict(11, session) == .storm)
        #expect(verdict(10, session) == .again)
        let after = start.advanced(seconds: 10)
        #expect(rule.verdict(counter: 11, contract: .dlauth, session: session, now: after) == .rotate)
        session.rotate(at: after, idleSeconds: 30 * 86_400)
        #expect(rule.verdict(counter: 12, contract: .dlauth, session: session, now: after) == .rotate)
    }

    /// By session key, the key that is shown, and the use of keys: a verdict of the counter, or a refusal before it.
    @Test func theKeyOfTheSessionIsLookedAtBeforeTheCounter() throws {
        let (own, other) = (
            try #require(KeyThumbprint(bytes: .init(repeating: 1, count: 32))), KeyThumbprint(bytes: .init(repeating: 2, count: 32))
        )
        let (missing, wrong) = (RefreshVerdict.refuse(.unproven(.missing)), RefreshVerdict.refuse(.unproven(.otherKey)))
        let cases: [(KeyThumbprint?, KeyThumbprint?, DeviceKeyUse, RefreshVerdict?, KeyThumbprint?)] = [
            (nil, nil, .offered, nil, nil), (nil, nil, .off, nil, nil), (nil, nil, .required, missing, nil),
            (nil, own, .offered, nil, own), (nil, own, .off, nil, nil), (nil, own, .required, nil, own),
            (own, nil, .offered, missing, own), (own, nil, .off, missing, own), (own, nil, .required, missing, own),
            (own, own, .offered, nil, own), (own, own, .off, nil, own), (own, other, .offered, wrong, own), (own, other, .off, wrong, own),
        ]
        for (bound, shown, use, refusal, after) in cases {
            for counter: UInt64 in 1...6 {
                var session = session()
                session.deviceKey = bound
                var request = RefreshRequest(session: session.id, contract: .dlauth, counter: counter, rule: rule)
                (request.deviceKey, request.keyUse) = (shown, use)
                #expect(request.verdict(on: session, now: start) == refusal ?? verdict(counter, session), "\(use) \(counter)")
                #expect(request.key(of: session) == after)
            }
        }
        // Other refusals come first.
        var bound = session()
        bound.deviceKey = own
        let request = RefreshRequest(session: bound.id, contract: .anonymous, counter: 5, rule: rule)
        #expect(request.verdict(on: bound, now: start) == .refuse(.wrongContract))
        bound.idleDeadline = start
        #expect(
            RefreshRequest(session: bound.id, contract: .dlauth, counter: 5, rule: rule).verdict(on: bound, now: start) == .refuse(.expired)
        )
    }

    @Test func aClockThatWasSetBackMakesNoStorm() {
        var session = session()
        for _ in 0..<10 { session.rotate(at: start, idleSeconds: 30 * 86_400) }
        let before = start.advanced(seconds: -3_600)
        #expect(rule.verdict(counter: 15, contract: .dlauth, session: session, now: before) == .rotate)
    }
}

/// The prover of an address becomes its owner.
@Suite struct ContactProofRuleTests {
    private static let caller = UUID(high: 0, low: 1)
    private static let other = UUID(high: 0, low: 2)
    private static let proven = ContactHolder(user: other, isConfirmed: true)
    private static let unproven = ContactHolder(user: other, isConfirmed: false)
    private static let ownProven = ContactHolder(user: caller, isConfirmed: true)
    private static let ownUnproven = ContactHolder(user: caller, isConfirmed: false)

    @Test(
        arguments: [
            (.signIn(caller: nil), nil, .refuse(.noAccount)), (.signIn(caller: caller), nil, .refuse(.noAccount)),
            (.signIn(caller: nil), proven, .confirm(other)), (.signIn(caller: caller), proven, .confirm(other)),
            (.signIn(caller: nil), unproven, .takeOver(other)), (.signIn(caller: caller), unproven, .takeOver(other)),
            (.signIn(caller: caller), ownUnproven, .confirm(caller)), (.signIn(caller: caller), ownProven, .confirm(caller)),
            (.link(caller: caller), nil, .attach(to: caller, releasing: nil)), (.link(caller: caller), proven, .confirm(other)),
            (.link(caller: caller), unproven, .takeOver(other)), (.link(caller: caller), ownProven, .confirm(caller)),
            (.link(caller: caller), ownUnproven, .confirm(caller)),
            (.change(caller: caller), nil, .attach(to: caller, releasing: nil)), (.change(caller: caller), proven, .refuse(.taken)),
            (.change(caller: caller), unproven, .attach(to: caller, releasing: other)),
            (.change(caller: caller), ownProven, .confirm(caller)),
            (.change(caller: caller), ownUnproven, .confirm(caller)),
        ] as [(ContactProof, ContactHolder?, ContactVerdict)])
    func aProofLeadsToOneAccount(_ proof: ContactProof, _ holder: ContactHolder?, _ expected: ContactVerdict) {
        for code in CodePurpose.allCases where code != .signUp {
            #expect(ContactProofRule.verdict(proof, code: code, holder: holder) == expected, "\(code)")
        }
    }

    /// It is the same but for one case: who has no session of the account that was never proven confirms the sign-up.
    @Test(
        arguments: [
            (nil, .refuse(.noAccount)), (proven, .confirm(other)), (unproven, .complete(other)), (ownProven, .confirm(caller)),
            (ownUnproven, .confirm(caller)),
        ] as [(ContactHolder?, ContactVerdict)])
    func aCodeOfASignUpCompletesIt(_ holder: ContactHolder?, _ expected: ContactVerdict) {
        #expect(ContactProofRule.verdict(.signIn(caller: Self.caller), code: .signUp, holder: holder) == expected)
    }

    @Test(
        arguments: [
            (other, proven, .known(other)), (other, nil, .known(other)), (caller, unproven, .known(caller)), (nil, nil, .create),
            (nil, proven, .link(other)), (nil, unproven, .takeOver(other)),
        ] as [(UUID?, ContactHolder?, IdentityVerdict)])
    func anIdentityLeadsToOneAccount(_ linked: UUID?, _ holder: ContactHolder?, _ expected: IdentityVerdict) {
        #expect(IdentityRule.verdict(linked: linked, holder: holder) == expected)
        // A guest keeps its account if there is no other one.
        let guest = UUID(high: 0, low: 3)
        #expect(IdentityRule.verdict(linked: linked, holder: holder, guest: guest) == (expected == .create ? .join(guest) : expected))
    }
}

/// When a name that comes along is stored.
@Suite struct NameRuleTests {
    @Test(
        arguments: [
            (NameRule.first, false, 0, true), (.first, false, 1_000, true), (.first, true, 0, false), (.firstOrFresh, false, 1_000, true),
            (.firstOrFresh, true, 4, true), (.firstOrFresh, true, 5, false),
        ] as [(NameRule, Bool, Int64, Bool)])
    func aNameIsTakenOnceOrWhileTheAccountIsNew(_ rule: NameRule, _ hasName: Bool, _ age: Int64, _ expected: Bool) throws {
        var account = Account(id: UUID(high: 0, low: 1), openedBy: .apple, createdAt: start, updatedAt: start)
        if hasName { account.name = try PersonName(given: "Ada", family: nil) }
        #expect(rule.accepts(account, now: start.advanced(seconds: age)) == expected)
    }
}

/// Matching a guess with the pending codes of a recipient.
@Suite struct CodeRuleTests {
    /// Codes of these purposes, each with a digest of its own.
    private func pending(_ purposes: CodePurpose..., triesLeft: Int64 = 5) -> [PendingCode] {
        purposes.map { purpose in
            PendingCode(
                purpose: purpose, recipient: "a@b", digest: digest(purpose), expiresAt: start.advanced(seconds: 600), triesLeft: triesLeft)
        }
    }

    private func digest(_ purpose: CodePurpose, of code: UInt8 = 1) -> [UInt8] {
        Array(purpose.rawValue.utf8) + [UInt8](repeating: code, count: 32)
    }

    private func verdict(
        triedAs purpose: CodePurpose, _ code: UInt8 = 1, among pending: [PendingCode], at now: WallTime = start
    ) -> CodeVerdict {
        CodeRule.verdict(CodeGuess(triedAs: purpose) { digest($0, of: code) }, pending: pending, now: now)
    }

    @Test func theRightCodeIsRightUntilItExpires() {
        #expect(verdict(triedAs: .email, among: pending(.email)) == .right(.email))
        #expect(verdict(triedAs: .email, among: pending(.email, triesLeft: 1)) == .right(.email))
        #expect(verdict(triedAs: .email, among: pending(.email), at: start.advanced(seconds: 599)) == .right(.email))
        #expect(verdict(triedAs: .email, among: pending(.email), at: start.advanced(seconds: 600)) == .wrong(left: []))
        #expect(verdict(triedAs: .email, among: pending(.email, triesLeft: 0)) == .wrong(left: []))
        #expect(verdict(triedAs: .email, among: []) == .wrong(left: []))
    }

    /// A sign-up code is accepted for other email purposes; no other code is accepted for another purpose.
    @Test(arguments: CodePurpose.allCases) func aCodeHasThePurposeItWasSentFor(_ sent: CodePurpose) {
        for tried in CodePurpose.allCases {
            let isTaken = tried == sent || (sent == .signUp && (tried == .email || tried == .recovery))
            let expected = isTaken ? CodeVerdict.right(sent) : .wrong(left: pending(sent, triesLeft: 4))
            #expect(verdict(triedAs: tried, among: pending(sent)) == expected, "\(sent) as \(tried)")
        }
    }

    @Test func aWrongTryCostsEveryPendingCodeOne() {
        var left = pending(.signUp, .email, .recovery, .link)
        for (tried, triesLeft) in [(CodePurpose.email, 4), (.signUp, 3), (.link, 2), (.emailChange, 1)] as [(CodePurpose, Int64)] {
            guard case .wrong(let rest) = verdict(triedAs: tried, 2, among: left) else { return #expect(Bool(false), "\(tried)") }
            #expect(rest == pending(.signUp, .email, .recovery, .link, triesLeft: triesLeft))
            left = rest
        }
        #expect(verdict(triedAs: .recovery, 2, among: left) == .wrong(left: []))
    }

    @Test func theCodeOfThePurposeThatItIsTriedAsComesFirst() {
        #expect(verdict(triedAs: .email, among: pending(.signUp, .email)) == .right(.email))
        #expect(verdict(triedAs: .recovery, among: pending(.signUp, .email)) == .right(.signUp))
    }
}

/// When a sign-up takes the place of an older one.
@Suite struct SignUpRuleTests {
    private func older(_ change: (inout Account) -> Void = { _ in }) -> Account {
        var account = Account(id: UUID(high: 0, low: 1), openedBy: .dlauth, createdAt: start, updatedAt: start)
        account.email = EmailAddress(stored: "a@x")
        account.entitlement = Entitlement(tier: "gold", until: nil, version: 3)
        account.metadata = Metadata(stored: Array(#"{"a":1}"#.utf8))
        account.username = Username(stored: "mallory")
        account.hasPassword = true
        change(&account)
        return account
    }

    private func new(_ contract: ContractID? = .dlauth, replacesUnfinishedSignUp: Bool = true) -> NewAccount {
        var new = NewAccount(id: UUID(high: 0, low: 2), openedBy: contract, email: EmailAddress(stored: "A@x"), passwordHash: "h")
        new.replacesUnfinishedSignUp = replacesUnfinishedSignUp
        return new
    }

    @Test func onlyUnusedSignUpsAreReplaced() {
        #expect(SignUpRule.startsAnew(over: older(), as: new(), hasSessions: false))
        #expect(!SignUpRule.startsAnew(over: older(), as: new(replacesUnfinishedSignUp: false), hasSessions: false))
        #expect(!SignUpRule.startsAnew(over: older(), as: new(), hasSessions: true))
        #expect(!SignUpRule.startsAnew(over: older(), as: new(.password), hasSessions: false))
        #expect(!SignUpRule.startsAnew(over: older { $0.emailConfirmedAt = start }, as: new(), hasSessions: false))
        let withPhone = older { $0.phone = PhoneNumber(stored: "+491512345678") }
        #expect(!SignUpRule.startsAnew(over: withPhone, as: new(), hasSessions: false))
    }

    @Test func aReplacedSignUpKeepsOnlyIDAgeAndTier() {
        let later = start.advanced(seconds: 60)
        let account = new().anew(older(), now: later)
        var expected = Account(id: UUID(high: 0, low: 1), openedBy: .dlauth, createdAt: start, updatedAt: later)
        expected.email = EmailAddress(stored: "A@x")
        expected.hasPassword = true
        expected.entitlement = Entitlement(tier: "gold", until: nil, version: 3)
        #expect(account == expected)
    }
}
