import Wire

/// The error of hashing a password when memory runs out.
package struct OutOfMemory: Error, Equatable, Sendable {}

/// A stored password hash: argon2id, or an imported one (Django's PBKDF2 and argon2id, bcrypt, Firebase's scrypt), which is verified and then
/// replaced.
///
/// Hashing and matching take tens of milliseconds of CPU: only on threads that may block.
package struct PasswordHash: Sendable, Equatable {
    /// The kinds that are verified, for people.
    package static let kinds =
        "Django's pbkdf2_sha256$…, argon2$argon2id$…, bcrypt_sha256$… and bcrypt$…, $argon2id$v=19$m=…,t=…,p=…$SALT$HASH, $2b$COST$…, $fbscrypt$v=1,n=…,r=…,p=1,ss=…,sk=…$SALT$HASH"

    private enum Form: Equatable {
        case argon2(Argon2Hash)
        case pbkdf2(PBKDF2Hash)
        case bcrypt(BcryptHash)
        case firebase(FirebaseScryptHash)
    }

    private let form: Form

    /// Parses a stored hash; nil if its kind is not supported or its cost out of bounds.
    package init?(parsing text: String) {
        // Django writes the name of the function before what libargon2 writes.
        let django = "argon2$"
        if let hash = Argon2Hash(parsing: text.hasPrefix(django) ? String(text.dropFirst(django.count - 1)) : text) {
            form = .argon2(hash)
        } else if let hash = PBKDF2Hash(parsing: text) {
            form = .pbkdf2(hash)
        } else if let hash = BcryptHash(parsing: text) {
            form = .bcrypt(hash)
        } else if let hash = FirebaseScryptHash(parsing: text) {
            form = .firebase(hash)
        } else {
            return nil
        }
    }

    /// Hashes `password` with argon2id and a salt of 16 bytes from `random`.
    package init(
        of password: RawSpan, cost: Argon2Cost = .standard, random: RandomBytes = SecureRandom.bytes
    ) throws(OutOfMemory) {
        precondition(cost.isWithinBounds, "a hash of this cost would be refused when verified")
        guard let hash = Argon2Hash(password, cost: cost, salt: random(Argon2Hash.saltBytes)) else {
            throw OutOfMemory()
        }
        form = .argon2(hash)
    }

    /// A hash that no password matches but that costs as much to check: hides by time whether an account exists.
    package static func unmatchable(cost: Argon2Cost = .standard) -> Self {
        Self(form: .argon2(.unmatchable(cost: cost)))
    }

    private init(form: Form) { self.form = form }

    /// The text to store: ASCII, at most 512 bytes.
    package var text: String {
        switch form {
        case .argon2(let hash): hash.text
        case .pbkdf2(let hash): hash.text
        case .bcrypt(let hash): hash.text
        case .firebase(let hash): hash.text
        }
    }

    /// Whether the hash is of `password`, compared in constant time.
    package func matches(_ password: RawSpan) throws(OutOfMemory) -> Bool {
        let verdict =
            switch form {
            case .argon2(let hash): hash.matches(password)
            case .pbkdf2(let hash): hash.matches(password)
            case .bcrypt(let hash): hash.matches(password)
            case .firebase(let hash): hash.matches(password)
            }
        guard let verdict else { throw OutOfMemory() }
        return verdict
    }

    /// Whether the hash should be replaced at the next sign-in because its kind or cost is not the current one.
    package func needsRehash(for cost: Argon2Cost = .standard) -> Bool {
        switch form {
        case .argon2(let hash): hash.cost != cost
        case .pbkdf2, .bcrypt, .firebase: true
        }
    }
}
