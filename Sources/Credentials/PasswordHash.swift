import Wire

/// That a password could not be hashed for want of memory.
package struct OutOfMemory: Error, Equatable, Sendable {}

/// A password as it is stored. Made with argon2id; those that Django made with PBKDF2 are verified as well, and are to
/// be replaced. Other kinds, such as bcrypt, are not taken.
///
/// To make and to match take tens of milliseconds of one core: for threads that may block.
package struct PasswordHash: Sendable, Equatable {
    /// Passwords are at most this long, in bytes; nobody should hand longer ones in here.
    package static let longestPassword = 1_024

    private enum Form: Equatable {
        case argon2(Argon2Hash)
        case pbkdf2(PBKDF2Hash)
    }

    private let form: Form

    /// A stored hash; nil if it is of no kind known here, or would cost too much.
    package init?(parsing text: String) {
        if let hash = Argon2Hash(parsing: text) {
            form = .argon2(hash)
        } else if let hash = PBKDF2Hash(parsing: text) {
            form = .pbkdf2(hash)
        } else {
            return nil
        }
    }

    /// A new hash of `password`, salted with 16 of `random`'s bytes.
    package init(
        of password: RawSpan, cost: Argon2Cost = .standard, random: RandomBytes = SecureRandom.bytes
    ) throws(OutOfMemory) {
        precondition(cost.isBearable, "no hash of this cost could be verified")
        guard let hash = Argon2Hash(password, cost: cost, salt: random(Argon2Hash.saltBytes)) else {
            throw OutOfMemory()
        }
        form = .argon2(hash)
    }

    /// A hash that takes as long as any of this cost and that no password matches.
    package static func unmatchable(cost: Argon2Cost = .standard) -> Self {
        Self(form: .argon2(.unmatchable(cost: cost)))
    }

    private init(form: Form) { self.form = form }

    /// What to store: ASCII, at most 512 bytes.
    package var text: String {
        switch form {
        case .argon2(let hash): hash.text
        case .pbkdf2(let hash): hash.text
        }
    }

    /// Whether `password` is the one, compared in constant time.
    package func matches(_ password: RawSpan) throws(OutOfMemory) -> Bool {
        let verdict =
            switch form {
            case .argon2(let hash): hash.matches(password)
            case .pbkdf2(let hash): hash.matches(password)
            }
        guard let verdict else { throw OutOfMemory() }
        return verdict
    }

    /// Whether it should be replaced at the next sign-in: another kind, or another cost.
    package func needsRehash(for cost: Argon2Cost = .standard) -> Bool {
        switch form {
        case .argon2(let hash): hash.cost != cost
        case .pbkdf2: true
        }
    }
}
