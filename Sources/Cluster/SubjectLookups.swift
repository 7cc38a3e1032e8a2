internal import Accounts
package import Gate
internal import Synchronization
internal import Wire

/// Tells workers the accounts of outside issuers' subjects that they ask for, with one store query for a subject at a time.
package final class SubjectLookups: Sendable {
    private let directory: AccountDirectory
    private let now: @Sendable () -> Moment
    private let broadcast: @Sendable (WorkerUpdate) -> Void
    /// The look-ups under way. Held while an answer is broadcast, so that a change which the answer does not know of is broadcast
    /// after it.
    private let inFlight = Mutex<[TokenUser: Flight]>([:])

    private struct Flight {
        /// The accounts that changed meanwhile.
        var changed: Set<UUID> = []
        /// Whether the answer is out of date, whatever it is.
        var isOvertaken = false
    }

    init(directory: AccountDirectory, now: @escaping @Sendable () -> Moment, broadcast: @escaping @Sendable (WorkerUpdate) -> Void) {
        self.now = now
        self.directory = directory
        self.broadcast = broadcast
    }

    /// Broadcasts the account of a trust line's subject. Any thread; returns at once.
    package func lookUp(_ user: TokenUser) {
        let isFirst = inFlight.withLock { inFlight in
            guard inFlight[user] == nil else { return false }
            inFlight[user] = Flight()
            return true
        }
        guard isFirst else { return }
        // Unstructured, because the caller is an event loop: it ends with the store's answer.
        Task {
            while true {
                let askedAt = self.now().wall
                let status = await status(user)
                // A store may fail late: the failure counts from its end, or requests would ask again and again.
                let learnedAt = status == .unavailable ? self.now().wall : askedAt
                let known = KnownSubject(user: user, status: status, learnedAt: learnedAt.seconds)
                let isCurrent = inFlight.withLock { inFlight in
                    if let flight = inFlight[user], flight.isOvertaken || status.isOfAny(of: flight.changed) {
                        inFlight[user] = Flight()
                        return false
                    }
                    inFlight[user] = nil
                    broadcast(.subjects([known]))
                    return true
                }
                if isCurrent { return }
            }
        }
    }

    /// These accounts changed: what is being read of them may be out of date. To be called before the change is broadcast.
    func changed(_ accounts: [UUID]) {
        inFlight.withLock { inFlight in
            for user in inFlight.keys { inFlight[user]?.changed.formUnion(accounts) }
        }
    }

    /// These subjects may stand for other accounts now. To be called before workers are told to forget them.
    func forget(_ users: [TokenUser]) {
        inFlight.withLock { inFlight in
            for user in users { inFlight[user]?.isOvertaken = true }
        }
    }

    /// Any account may have changed: answers under way are discarded, and the store is asked again.
    func forgetAll() {
        inFlight.withLock { inFlight in
            for user in inFlight.keys { inFlight[user]?.isOvertaken = true }
        }
    }

    /// The account of a trust line's subject.
    package func status(_ user: TokenUser) async -> SubjectStatus {
        guard let source = user.issuer.flatMap({ IdentitySource(trustLine: $0) }),
            let key = IdentityKey(source, subject: user.id)
        else { return .unknown }
        do throws(AccountFailure) {
            return switch try await directory.subject(key) {
            case .account(let id): .account(id)
            case .unknown: .unknown
            case .refused: .refused
            }
        } catch {
            return .unavailable
        }
    }
}

extension SubjectStatus {
    fileprivate func isOfAny(of accounts: Set<UUID>) -> Bool {
        if case .account(let id) = self { accounts.contains(id) } else { false }
    }
}
