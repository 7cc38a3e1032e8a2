package import Credentials
package import Wire

/// For whom passkeys are made, and the rules that their answers are held to (`TOLLGATE_PASSKEY`).
package struct RelyingParty: Sendable {
    package let id: String
    package let name: String
    package let rules: PasskeyRules

    package init(id: String, name: String, origins: Set<String>) {
        self.id = id
        self.name = name
        rules = PasskeyRules(rpID: id, origins: origins)
    }
}

/// The request to an authenticator for a new passkey.
package struct PasskeyInvitation: Sendable {
    package let challenge: [UInt8]
    /// The id that the authenticator keeps: an account's, and no data of a person (WebAuthn §14.6.1).
    package let user: UUID
    /// As the authenticator shows the account.
    package let userName: String
    package let displayName: String
    /// Those that the account has.
    package let known: [Passkey]
}

/// Sign-up and sign-in by passkeys, and the passkeys of an account. A refused answer of an authenticator is charged to its address as a wrong
/// password is, before it is looked at.
package struct Passkeys: Sendable {
    package typealias Fault = AccountError<PasskeyRefusal>

    package let party: RelyingParty
    /// Those that are mounted.
    package let contracts: [ContractID]
    private let context: AccountContext
    private let mint: TokenMint
    private let limiter: any AttemptLimiter
    private let challenges: PasskeyChallenges
    private let ways: SignInWays

    /// `secret` is the refresh token secret; `ways`: those that are left to an account whose passkeys are removed.
    package init(
        _ party: RelyingParty, contracts: [ContractID], context: AccountContext, mint: TokenMint, limiter: any AttemptLimiter,
        secret: [UInt8], ways: SignInWays
    ) {
        self.party = party
        self.contracts = contracts
        self.context = context
        self.mint = mint
        self.limiter = limiter
        self.ways = ways
        challenges = PasskeyChallenges(secret: secret)
    }

    // MARK: challenges

    /// Asks for a passkey for the caller's account. `name` is its name; nil: that of the device.
    package func invite(_ session: CallerSession, name: String?) async throws(Fault) -> PasskeyInvitation {
        let account = try await context.ask(orRefuse: PasskeyRefusal.sessionEnded, await context.store.account(session.user))
        let known = try await Fault.failing(try await all(of: session.user))
        guard known.count < Passkey.most else { throw .refused(.full) }
        return invitation(.registration, [session.session.text], name, account.id, account, known)
    }

    /// Asks for a passkey with which an account is opened, or a guest becomes one.
    package func invite(_ contract: ContractID, _ caller: CallerSession?, name: String?) async throws(Fault) -> PasskeyInvitation {
        var guest: Account?
        if let caller {
            let account = try await context.ask(orRefuse: PasskeyRefusal.sessionEnded, await context.store.account(caller.user))
            let identities = try await Fault.failing(try await context.ask(await context.store.identities(of: caller.user)))
            guard GuestRule.isGuest(account, hasIdentities: !identities.isEmpty) else { throw .refused(.notGuest) }
            guest = account
        }
        let (user, session) = (guest?.id ?? context.newID(context.storeTime), guest.flatMap { _ in caller?.session.text } ?? "")
        return invitation(.signUp, [contract.name, user.text, session], name, user, guest, [])
    }

    /// A challenge for a sign-in. It depends on no account, so it tells of none.
    package func challenge(_ contract: ContractID) -> [UInt8] {
        challenges.issue(.authentication, subject: contract.name, now: context.storeTime, random: context.random)
    }

    private func invitation(
        _ purpose: PasskeyPurpose, _ subject: [String], _ name: String?, _ user: UUID, _ account: Account?, _ known: [Passkey]
    ) -> PasskeyInvitation {
        let words = (subject + [name ?? ""]).joined(separator: "\n")
        let challenge = challenges.issue(purpose, subject: words, now: context.storeTime, random: context.random)
        let shown = account?.email?.text ?? account?.username?.text ?? account?.phone?.text ?? name ?? party.name
        return PasskeyInvitation(
            challenge: challenge, user: user, userName: shown, displayName: account?.name?.full ?? shown, known: known)
    }

    /// The words of an open challenge, and what spends it.
    private func opened(_ challenge: [UInt8], _ purpose: PasskeyPurpose) throws(Fault) -> ([String], SpentProof) {
        guard let open = challenges.open(challenge, purpose: purpose, now: context.storeTime) else { throw .refused(.challenge) }
        let words = open.subject.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        return (words, SpentProof(digest: Digest.sha256(challenge.rawBytes), endsAt: open.endsAt))
    }

    // MARK: answers

    /// Adds the passkey of an answer to the caller's account.
    package func add(
        _ credential: [UInt8], name: String?, session: CallerSession, caller: Caller
    ) async throws(Fault) -> Passkey {
        try await judged(caller) { () throws(Fault) in
            let new = try registration(credential)
            let (words, proof) = try opened(new.challenge, .registration)
            guard words.count == 2, words[0] == session.session.text else { throw .refused(.challenge) }
            let audit = context.audit(caller)
            let passkey = Passkey(new, of: session.user, name: named(name, words[1], caller), at: audit.now)
            let signUp = SignUp(.anonymous, address: caller.address)
            let attributes = try await Fault.failing(try await context.admitGuest(session, signUp))
            let added = try await context.settle(await context.store.add(passkey, by: session, spending: proof, audit))
            try await Fault.failing(try await context.give(attributes, to: session.user, audit))
            return added
        }
    }

    /// Opens an account with the passkey of an answer, or adds it to that of the guest who asked for it, and signs in.
    package func signUp(
        _ credential: [UInt8], name: String?, contract: ContractID, guest: CallerSession?, caller: Caller
    ) async throws(Fault) -> SignedIn {
        try await judged(caller) { () throws(Fault) in
            let new = try registration(credential)
            let (words, proof) = try opened(new.challenge, .signUp)
            guard words.count == 4, words[0] == contract.name, let user = UUID(parsing: words[1]) else { throw .refused(.challenge) }
            var account = NewAccount(id: user, openedBy: contract)
            if !words[2].isEmpty {
                guard let guest, guest.user == user, guest.session.text == words[2] else { throw .refused(.challenge) }
                account.guest = guest
            }
            let attempts = try await Fault.failing(try await Attempts(limiter, caller.address.bucket(.addressOpenings)))
            account.attributes = try await Fault.failing(try await context.admit(SignUp(contract, address: caller.address)))
            let (audit, opened) = (context.audit(caller), account)
            let passkey = Passkey(new, of: user, name: named(name, words[3], caller), at: audit.now)
            let session = proven(context.newSession(contract, caller, audit.now), at: audit.now)
            let signIn = try await attempts.make { () throws(Fault) in
                try await context.settle(await context.store.open(opened, with: passkey, spending: proof, session: session, audit))
            }
            return try await granted(signIn)
        }
    }

    /// Signs in the user of the passkey that an answer is of: renews `present`, if that is the user's session of the contract and lasts
    /// long enough, and else opens another.
    package func signIn(
        _ credential: [UInt8], contract: ContractID, present: CallerSession?, caller: Caller
    ) async throws(Fault) -> SignedIn {
        try await judged(caller) { () throws(Fault) in
            let sent: UnverifiedAssertion
            do throws(PasskeyFault) { sent = try party.rules.assertion(credential.rawBytes) } catch {
                throw .refused(.invalid(error.message))
            }
            let (words, proof) = try opened(sent.challenge, .authentication)
            guard words == [contract.name] else { throw .refused(.challenge) }
            var used = try await context.ask(orRefuse: PasskeyRefusal.unknown, await context.store.passkey(sent.credentialID))
            guard sent.userHandle == nil || sent.userHandle == used.user.bytes else {
                throw .refused(.invalid("userHandle is not that of the passkey's account"))
            }
            do throws(PasskeyFault) {
                (used.signCount, used.isBackedUp) = try sent.verified(
                    by: used.publicKey, used.algorithm, isBackupEligible: used.isBackupEligible)
            } catch {
                throw .refused(.invalid(error.message))
            }
            _ = try await Fault.failing(try await Attempts(limiter, [AttemptBucket(signInBy: used)]))
            let (audit, passkey) = (context.audit(caller), used)
            let session = proven(context.newSession(contract, caller, audit.now), at: audit.now)
            return try await granted(
                try await context.settle(await context.store.signIn(passkey, spending: proof, session: session, present: present, audit)))
        }
    }

    /// The session of a user by whom two factors were proven: the authenticator is one, and it has verified the user by another.
    private func proven(_ session: NewSession, at now: WallTime) -> NewSession {
        var session = session
        if context.offersFactor { session.factorAt = now }
        return session
    }

    private func registration(_ credential: [UInt8]) throws(Fault) -> NewPasskey {
        do throws(PasskeyFault) { return try party.rules.registration(credential.rawBytes) } catch {
            throw .refused(.invalid(error.message))
        }
    }

    /// The name of a new passkey: the one that came with it, or with the request for its challenge, else that of the device.
    private func named(_ sent: String?, _ asked: String, _ caller: Caller) -> String {
        sent ?? (asked.isEmpty ? nil : asked) ?? caller.deviceName.flatMap(PlainText.deviceName)
            ?? caller.device.flatMap(PlainText.label).map(DeviceLabel.reading) ?? "Passkey"
    }

    // MARK: the passkeys of an account

    /// Oldest first.
    package func all(of user: UUID) async throws(AccountFailure) -> [Passkey] {
        try await context.ask(await context.store.passkeys(of: user))
    }

    /// nil if the account has no such passkey.
    package func rename(_ credentialID: [UInt8], of user: UUID, to name: String) async throws(AccountFailure) -> Passkey? {
        try await context.ask(await context.store.rename(credentialID, of: user, to: name))
    }

    /// Removes a passkey of the caller's account, and ends the other sessions of that.
    package func remove(_ credentialID: [UInt8], from session: CallerSession, caller: Caller) async throws(Fault) {
        let audit = context.audit(caller)
        _ = try await context.settle(await context.store.remove(credentialID, of: session.user, keeping: session.session, ways, audit))
    }
}

extension Passkeys {
    /// Makes a call that counts as a wrong guess of its address if it is refused.
    private func judged<Value: Sendable>(_ caller: Caller, _ call: () async throws(Fault) -> Value) async throws(Fault) -> Value {
        try await Guesses(context: context, limiter: limiter).judge(from: caller.address, call)
    }

    private func granted(_ signIn: SignIn) async throws(Fault) -> SignedIn {
        let granted = try await Fault.failing(try await context.granted(signIn, mint))
        return SignedIn(account: granted.account, grant: granted.grant, isNew: signIn.isNew)
    }
}

extension Passkey {
    /// A name for a passkey, of at most 64 characters; nil for an empty one.
    package static func name(_ text: String) throws(MalformedText) -> String? {
        let name = try PlainText.clean(text, limit: 256)
        guard name.map({ $0.count <= 64 }) ?? true else { throw MalformedText() }
        return name
    }
}
