import Testing
import Wire

@testable import Credentials

/// Stored password hashes.
@Suite struct PasswordHashTests {
    private static let cheap = Argon2Cost(kibibytes: 64, passes: 1, lanes: 1)

    private func hash(_ password: String, cost: Argon2Cost = cheap) throws -> PasswordHash {
        let bytes = password.bytes
        return try PasswordHash(of: bytes.rawBytes, cost: cost)
    }

    private func matches(_ hash: PasswordHash, _ password: String) throws -> Bool {
        let bytes = password.bytes
        return try hash.matches(bytes.rawBytes)
    }

    @Test func onlyTheHashedPasswordMatches() throws {
        for password in ["correct horse", "", "пароль", "a\u{0}b", String(repeating: "x", count: 1_024)] {
            let stored = try #require(PasswordHash(parsing: hash(password).text))
            #expect(try matches(stored, password))
            for other in [password + "x", "", "correct hors", "a"] where other != password {
                #expect(try !matches(stored, other))
            }
        }
    }

    @Test func theSamePasswordIsStoredDifferentlyEachTime() throws {
        #expect(try hash("secret") != hash("secret"))
    }

    @Test func theTextHasTheStandardCost() throws {
        let made = try hash("secret", cost: .standard)
        #expect(made.text.hasPrefix("$argon2id$v=19$m=19456,t=2,p=1$"))
        #expect(made.text.utf8.count == 97)
        #expect(!made.needsRehash())
    }

    /// A vector of the reference implementation.
    @Test func hashesMadeElsewhereAreRecognised() throws {
        let text = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
        let stored = try #require(PasswordHash(parsing: text))
        #expect(stored.text == text)
        #expect(try matches(stored, "password"))
        #expect(try !matches(stored, "differentpassword"))
        #expect(stored.needsRehash())
    }

    /// The thread keeps its memory from one hash to the next, unless that is much, and the next one may need more or less of it.
    @Test func hashesOfOneThreadDoNotMeet() throws {
        let salt = [UInt8](repeating: 7, count: 16)
        let costs = [16, 64, 40_000, 32, 19_456, 64].map { Argon2Cost(kibibytes: $0, passes: 1, lanes: 1) }
        let password = "secret".bytes
        func text(_ cost: Argon2Cost) throws -> String {
            try PasswordHash(of: password.rawBytes, cost: cost) { Array(salt.prefix($0)) }.text
        }
        let alone = try costs.map(text)
        #expect(try costs.reversed().map(text) == alone.reversed())
        #expect(alone[1] == alone[5] && Set(alone).count == 5)
    }

    @Test func anotherCostAsksToBeReplaced() throws {
        for cost in [
            Argon2Cost(kibibytes: 128, passes: 1, lanes: 1), Argon2Cost(kibibytes: 64, passes: 2, lanes: 1),
            Argon2Cost(kibibytes: 64, passes: 1, lanes: 2),
        ] {
            let made = try hash("secret", cost: cost)
            #expect(try matches(made, "secret"))
            #expect(made.needsRehash(for: Self.cheap))
            #expect(!made.needsRehash(for: cost))
        }
    }

    @Test(arguments: [
        ("pbkdf2_sha256$1000$seasalt$JgZryXe2Ga8ysg6XbzkLpTdyPQrHqsinbL9BnnhgX4A=", "lètmein"),
        ("pbkdf2_sha256$1$x$yb9iKunqNijXRQKUvO6LoyiwVgfOzKs1+3gaWy8rzxc=", ""),
        ("bcrypt_sha256$$2b$04$AfwfDPY3XJvtd6s8OmMJH.gtgXXMLRLwJHro.gBguV9fqW4B3uFWS", "lètmein"),
        ("bcrypt_sha256$$2b$04$nDPDK2iFM7UyjO48Zw2MJOwQz/BEiTF7OZsdv8VmY1ZJN56x0S23u", ""),
        ("bcrypt_sha256$$2b$04$II8bfZHINs2qiAHfZHBQaOZvqtk8lqEVcEVisYNoK4JYQCNcF3oeG", String(repeating: "p", count: 200)),
        ("bcrypt$$2b$04$j.y5z5rFBo4XQjzE1/wWH.BIJky/gsheG9Za4FySA0OtO8GTt253K", "lètmein"),
        ("$2a$04$kPlo995AbK165T8i1j4B9uP386OzElBo9SSuZRA/lpeKnlBTFG63W", "lmn"),
        ("argon2$argon2id$v=19$m=64,t=1,p=2$c2Vhc2FsdHNlYXNhbHQ$HH4YK90FoBZmLBmoZZZ4IQ", "lètmein"),
        (
            "pbkdf2_sha256$2$NaClNaClNaClNaClNaClNaClNaClNaClNaClNaCl$9rtXv9sVEoC40EYhKB0BCvZKisvyn0Vpw+04OWy+KAE=",
            String(repeating: "p", count: 200)
        ),
    ])
    func djangosHashesAreRecognisedAndAskToBeReplaced(_ text: String, _ password: String) throws {
        let stored = try #require(PasswordHash(parsing: text))
        #expect(text.hasSuffix(stored.text))
        #expect(try matches(stored, password))
        #expect(try !matches(stored, password + "x"))
        #expect(stored.needsRehash())
    }

    /// bcrypt reads 72 bytes and stops at a NUL: any password with the same beginning would pass.
    @Test func aPasswordThatBcryptWouldCutIsNotTheOne() throws {
        let long = String(repeating: "a", count: 72)
        // Of 72 times a.
        let stored = try #require(PasswordHash(parsing: "$2b$04$abcdefghijklmnopqrstuuBzzIgyKkz7xMWYSzkIjUSnxEQFQ0WNe"))
        #expect(try matches(stored, long))
        #expect(try !matches(stored, long + "b"))
        let short = try #require(PasswordHash(parsing: "$2a$04$kPlo995AbK165T8i1j4B9uP386OzElBo9SSuZRA/lpeKnlBTFG63W"))
        #expect(try !matches(short, "lmn\u{0}x"))
    }

    // MARK: Firebase

    /// The sample of the README of github.com/firebase/scrypt.
    private static let firebase = (
        parameters: "v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==",
        salt: "42xEC+ixf3L2lw==", hash: "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="
    )

    @Test func firebasesHashesAreVerifiedAndReplaced() throws {
        let text = "$fbscrypt$\(Self.firebase.parameters)$\(Self.firebase.salt)$\(Self.firebase.hash)"
        let stored = try #require(PasswordHash(parsing: text))
        #expect(stored.text == text && stored.needsRehash())
        #expect(try matches(stored, "user1password"))
        for other in ["user1passwor", "", "user1password\n"] { #expect(try !matches(stored, other)) }
        let salted = try #require(PasswordHash(parsing: text.replacing("$42x", with: "$43x")))
        #expect(try !matches(salted, "user1password"))
    }

    @Test(arguments: [
        ("v=1,", "v=2,"), ("n=14", "n=0"), ("n=14", "n=17"), ("n=14", "n=+4"), ("n=14,r=8", "n=16,r=16"), ("n=14,r=8", "n=16,r=1"),
        ("r=8", "r=0"), ("p=1", "p=2"), ("ss=Bw==", "ss=Bw"),
        ("sk=jx", "sk=j"), ("p=1,ss", "ss"), ("$42xEC+ixf3L2lw==", "$"), ("lSrfV15c", ""), ("$fbscrypt", "$scrypt"),
    ])
    func firebasesFormIsTakenToTheLetter(_ part: String, _ instead: String) {
        let text = "$fbscrypt$\(Self.firebase.parameters)$\(Self.firebase.salt)$\(Self.firebase.hash)"
        #expect(PasswordHash(parsing: text) != nil && text.contains(part))
        #expect(PasswordHash(parsing: text.replacing(part, with: instead)) == nil)
    }

    /// Malformed hashes, unsupported kinds, and costs out of bounds.
    @Test(arguments: [
        "", "$", "secret", "$argon2id$", "!unusable",
        "$2b$16$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", "bcrypt_sha256$$2b$12$x",
        "$2b$+4$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", "$2b$3$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
        "$2x$04$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", "$2b$04$R9h/cIPz0gi.URNNX3kh2OPST9_PgBkqquzi.Ss7KIUgO2t0jWMUW",
        "bcrypt$2b$04$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
        "argon2$$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2i$v=19$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=16$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=+64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=1048576,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=262144,t=5,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=4294967295,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1,p=0$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1,p=16$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=4,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPd",
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc$",
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$", "pbkdf2_sha1$1$x$AAAA", "pbkdf2_sha256$1$x$AAAA",
        "pbkdf2_sha256$0$x$gK8BIb8VPVF3lCNV0dNyFOPZp2xC5SYi5FLvpIVTzi8=",
        "pbkdf2_sha256$10000001$x$gK8BIb8VPVF3lCNV0dNyFOPZp2xC5SYi5FLvpIVTzi8=",
        "pbkdf2_sha256$99999999999999999999$x$gK8BIb8VPVF3lCNV0dNyFOPZp2xC5SYi5FLvpIVTzi8=",
        "pbkdf2_sha256$-1$x$gK8BIb8VPVF3lCNV0dNyFOPZp2xC5SYi5FLvpIVTzi8=",
        "pbkdf2_sha256$1$$gK8BIb8VPVF3lCNV0dNyFOPZp2xC5SYi5FLvpIVTzi8=",
        "pbkdf2_sha256$1$x$gK8BIb8VPVF3lCNV0dNyFOPZp2xC5SYi5FLvpIVTzi8",
    ])
    func nothingElseIsTakenForAHash(_ text: String) { #expect(PasswordHash(parsing: text) == nil) }

    @Test func base64IsTheStandardAlphabetInItsCanonicalSpelling() {
        let cases: [(String, Bool, [UInt8]?)] = [
            ("+/8", false, [0xFB, 0xFF]), ("+/8=", true, [0xFB, 0xFF]), ("-_8", false, nil), ("+/8", true, nil),
            ("+/8=", false, nil), ("", true, []), ("AA==", true, [0]), ("AB==", true, nil), ("A===", true, nil),
            ("AAAA====", true, nil), ("AAAA", true, [0, 0, 0]),
        ]
        for (text, isPadded, expected) in cases {
            let decoded = Base64.decode(text.bytes.rawBytes, isPadded: isPadded)
            #expect(decoded == expected, "\(text)")
            if let expected {
                let encoded = Base64.encode(expected.rawBytes, isPadded: isPadded)
                #expect(encoded == text)
            }
        }
    }
}
