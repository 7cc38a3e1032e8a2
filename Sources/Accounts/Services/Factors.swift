internal import Credentials
internal import Wire

/// The second factor of accounts: codes of authenticator apps (TOTP), and backup codes in their place.
package struct Factors: Sendable {
    package typealias Fault = AccountError<FactorRefusal>

    private static let backupBytes = 10

    private let context: AccountContext
    private let sessions: Sessions
    private let limiter: any AttemptLimiter
    private let box: SealedBox
    private let digests: KeyedDigest
    /// The name of the app, as authenticator apps show it.
    private let issuer: String

    /// `secret` is the refresh token secret, from which the keys are derived.
    package init(context: AccountContext, sessions: Sessions, limiter: any AttemptLimiter, secret: [UInt8], issuer: String) {
        self.context = context
        self.sessions = sessions
        self.limiter = limiter
        self.issuer = issuer
        box = SealedBox(secret: secret, label: "tollgate factor")
        digests = KeyedDigest(secret: secret, label: "tollgate backup code")
    }

    /// The caller's session and the factor of its account, nil if none is set up.
    package func state(_ caller: CallerSession) async throws(Fault) -> (session: Session, factor: KeptFactor?) {
        try await context.value(orRefuse: FactorRefusal.recency(.sessionEnded)) {
            () throws(AccountFailure) -> (session: Session, factor: KeptFactor?)? in
            guard let session = try await sessions.open(caller)?.session else { return nil }
            let factor = try await context.ask(await context.store.factor(of: caller.user))
            return (session, factor?.confirmedAt == nil ? nil : factor)
        }
    }

    /// Begins an enrolment: the secret in base32, and the URI that apps read from a QR code.
    package func enrol(_ caller: CallerSession, by client: Caller) async throws(Fault) -> (secret: String, uri: String) {
        let account = try await context.value(orRefuse: FactorRefusal.recency(.sessionEnded)) { () throws(AccountFailure) in
            try await sessions.open(caller)?.account
        }
        let audit = context.audit(client)
        let (id, secret) = (context.newID(audit.now), context.random(OneTimePassword.secretBytes))
        let factor = KeptFactor(id: id, sealed: box.seal(secret, as: id.text, random: context.random), createdAt: audit.now)
        try await context.settle(await context.store.enrol(factor, by: caller, audit))
        let text = OneTimePassword.base32(secret)
        let name = account.email?.text ?? account.username?.text ?? account.phone?.text ?? account.id.text
        let (app, label) = (PercentEncoding.encode(issuer), PercentEncoding.encode(name))
        return (text, "otpauth://totp/\(app):\(label)?secret=\(text)&issuer=\(app)")
    }

    /// Takes a code of six digits or a backup code, and notes the proof in the caller's session. `enrols`: whether it may end an enrolment.
    package func prove(_ code: String, enrols: Bool, _ caller: CallerSession, by client: Caller) async throws(Fault) {
        let audit = context.audit(client)
        // People write codes with blanks, and apps show backup codes with hyphens.
        let plain = Array(code.uppercased().utf8.filter { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "-") })
        let attempts = try await Fault.failing(try await admit(plain, caller, client))
        do throws(Fault) {
            let factor = try await context.ask(orRefuse: FactorRefusal.none, await context.store.factor(of: caller.user))
            guard let proof = try proof(plain, factor, enrols: enrols) else { throw .refused(.wrongCode) }
            try await context.settle(await context.store.prove(proof, by: caller, audit))
            attempts.refund()
        } catch {
            if error != .refused(.wrongCode) { attempts.refund() }
            throw error
        }
    }

    /// Charges a guess. A thief of the password opens sessions and fills the account's allowance with wrong codes. So a session that has
    /// proven the factor before may go on by its own, and backup codes, whose 80 bits are not guessed, do not count for the account.
    private func admit(_ code: [UInt8], _ caller: CallerSession, _ client: Caller) async throws(AccountFailure) -> Attempts {
        let own = [AttemptBucket(.sessionFactors, caller.session.text)] + client.address.bucket(.addressFailures)
        guard isTimed(code) else { return try await Attempts(limiter, own) }
        do throws(AccountFailure) {
            return try await Attempts(limiter, own + [AttemptBucket(.accountFactors, caller.user.text)])
        } catch {
            guard case .tooManyAttempts = error, try await sessions.open(caller)?.session?.factorAt != nil else { throw error }
            return try await Attempts(limiter, own)
        }
    }

    /// Whether a code is of an authenticator app; the others are backup codes.
    private func isTimed(_ code: [UInt8]) -> Bool { code.count == 6 }

    /// nil for a code that no time near now has.
    private func proof(_ code: [UInt8], _ factor: KeptFactor, enrols: Bool) throws(Fault) -> FactorProof? {
        guard isTimed(code) else { return .backup(digest(code, of: factor)) }
        guard let secret = box.open(factor.sealed, as: factor.id.text) else {
            context.notice(.storeFailed("a second factor was sealed with another secret"))
            throw .failed(.broken)
        }
        return OneTimePassword.step(of: code, secret: secret, at: context.storeTime).map { .code(step: $0, of: factor.id, enrols: enrols) }
    }

    /// New backup codes in place of all before; shown once.
    package func makeBackupCodes(_ caller: CallerSession, by client: Caller) async throws(Fault) -> [String] {
        let (_, found) = try await state(caller)
        guard let factor = found else { throw .refused(.none) }
        let codes = (0..<KeptFactor.backupCodes).map { _ in OneTimePassword.base32(context.random(Self.backupBytes)) }
        let digests = codes.map { digest(Array($0.utf8), of: factor) }
        let audit = context.audit(client)
        try await context.settle(await context.store.setBackupCodes(digests, by: caller, audit))
        return codes.map { "\($0.prefix(8))-\($0.dropFirst(8))" }
    }

    /// Removes the factor.
    package func remove(_ caller: CallerSession, by client: Caller) async throws(Fault) {
        let audit = context.audit(client)
        try await context.settle(await context.store.dropFactor(by: caller, audit))
    }

    /// Codes are random, so that a digest without a salt of its own tells nothing.
    private func digest(_ code: [UInt8], of factor: KeptFactor) -> [UInt8] { digests.digest(factor.id.bytes, code) }
}
