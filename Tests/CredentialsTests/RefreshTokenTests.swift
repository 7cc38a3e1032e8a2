import Testing
import Wire

@testable import Credentials

/// Opaque refresh tokens: verification without a database lookup.
@Suite struct RefreshTokenTests {
    private static let secret = [UInt8](repeating: 7, count: 32)
    private let keys = RefreshTokenKeys(secret: secret)
    private let token = RefreshToken(
        contract: 4, session: UUID(high: 0x0123_4567_89AB_4DEF, low: 0x8123_4567_89AB_CDEF), counter: 258)

    private func verify(_ text: String, _ keys: RefreshTokenKeys) -> RefreshToken? {
        text.withRawBytes { keys.verify($0) }
    }

    @Test func anIssuedTokenHasItsContent() {
        for counter in [1, 2, 255, 256, UInt64.max] {
            let token = RefreshToken(contract: 1, session: token.session, counter: counter)
            #expect(verify(keys.issue(token), keys) == token)
        }
    }

    @Test func theSamePlaceInTheChainIsTheSameToken() {
        #expect(keys.issue(token) == keys.issue(token))
        #expect(keys.issue(token) == RefreshTokenKeys(secret: Self.secret).issue(token))
    }

    @Test func itLooksAsTheContractsShowIt() {
        let text = keys.issue(token)
        #expect(text.hasPrefix("v1."))
        #expect(text.utf8.count == 65)
    }

    @Test func noOtherTextIsAToken() {
        let text = keys.issue(token)
        for index in text.utf8.indices {
            for replacement in [UInt8(ascii: "A"), UInt8(ascii: "z"), UInt8(ascii: "."), 0] {
                var bytes = Array(text.utf8)
                let place = text.utf8.distance(from: text.utf8.startIndex, to: index)
                guard bytes[place] != replacement else { continue }
                bytes[place] = replacement
                let said = keys.verify(bytes.rawBytes)
                #expect(said == nil, "byte \(place) as \(replacement)")
            }
        }
        for other in ["", "v1.", text + "A", String(text.dropLast()), text + "=", " " + text, "v2." + text.dropFirst(3)] {
            #expect(verify(other, keys) == nil)
        }
    }

    @Test func aSecretThatIsNotKnownIssuedNothing() {
        let other = RefreshTokenKeys(secret: [UInt8](repeating: 8, count: 32))
        #expect(verify(other.issue(token), keys) == nil)
    }

    @Test func anEarlierSecretStillVerifiesAndNoLongerIssues() {
        let rotated = RefreshTokenKeys(secret: [UInt8](repeating: 8, count: 32), earlier: [Self.secret])
        #expect(verify(keys.issue(token), rotated) == token)
        #expect(rotated.issue(token) != keys.issue(token))
        #expect(verify(rotated.issue(token), keys) == nil)
    }
}

/// Refresh tokens that are JWTs.
@Suite struct RefreshJWTTests {
    private static let secret = [UInt8](repeating: 7, count: 32)
    private let user = UUID(high: 1, low: 2)
    private let session = UUID(high: 3, low: 4)

    private func tokens(_ secret: [UInt8] = secret, earlier: [[UInt8]] = []) throws -> RefreshJWTs {
        try RefreshJWTs(secret: secret, earlier: earlier, issuer: "https://gate.test")
    }

    private func issue(_ tokens: RefreshJWTs) throws -> String {
        try tokens.issue(user: user, session: session, contract: 2, id: "j1", issuedAt: now, expiresAt: now + 100)
    }

    private func verify(_ text: String, _ tokens: RefreshJWTs, at seconds: Int64 = now) -> Result<RefreshJWTs.Content, TokenFault> {
        text.withRawBytes { tokens.verify($0, now: WallTime(seconds: seconds)) }
    }

    @Test func itNamesItsUserAndSessionUntilItExpires() throws {
        let tokens = try tokens()
        let text = try issue(tokens)
        #expect(try verify(text, tokens).get() == .init(user: user, session: session, contract: 2, expiresAt: now + 100))
        #expect(verify(text, tokens, at: now + 131) == .failure(.expired))
    }

    @Test func itDeclaresItselfARefreshToken() throws {
        let said = try inspect(issue(tokens())).payload ?? ""
        #expect(said.contains(#""token_type":"refresh""#))
        #expect(said.contains(#""sid":"\#(session.text)""#))
    }

    /// A contract claim, and the contract that is read from it; -1 if the token is refused.
    @Test(
        arguments: [
            (nil, nil), ("4", 4), ("0", 0), ("256", -1), ("-1", -1), (#""2""#, -1), ("null", -1), ("1e99", -1), ("[2]", -1),
        ] as [(String?, Int?)])
    func itNamesItsContractOrIsOlder(_ claim: String?, _ expected: Int?) throws {
        let label = Array("tollgate refresh JWT".utf8)
        let key = try SigningKey(secret: Digest.hmacSHA256(label.rawBytes, key: Self.secret.rawBytes).rawBytes)
        let more = claim.map { #","contract":\#($0)"# } ?? ""
        let payload =
            #"{"iss":"https://gate.test","aud":"refresh","sub":"\#(user)","sid":"\#(session)","exp":1700000600,"token_type":"refresh"\#(more)}"#
        switch verify(Forge.token(header: #"{"alg":"HS256"}"#, payload: payload, key: key), try tokens()) {
        case .success(let said): #expect(said.contract.map(Int.init) == expected)
        case .failure(let fault): #expect(expected == -1 && fault == .badClaim)
        }
    }

    @Test func anEarlierSecretStillVerifies() throws {
        let old = try tokens()
        let rotated = try tokens([UInt8](repeating: 8, count: 32), earlier: [Self.secret])
        #expect(try verify(issue(old), rotated).get().session == session)
        #expect(try verify(issue(rotated), old).fault == .badSignature)
    }

    @Test func aTokenSignedWithTheUnderivedSecretIsRefused() throws {
        let key = try SigningKey(secret: Self.secret.rawBytes)
        let payload =
            #"{"iss":"https://gate.test","aud":"refresh","sub":"\#(user)","sid":"\#(session)","exp":1700000600,"token_type":"refresh"}"#
        let forged = Forge.token(header: #"{"alg":"HS256"}"#, payload: payload, key: key)
        #expect(try verify(forged, tokens()).fault == .badSignature)
    }

    /// Rules for refresh tokens refuse access tokens, even with a signature by the same key.
    @Test(
        arguments: [
            (#""token_type":"refresh""#, nil), (#""token_type":"Refresh""#, nil), (#""token_type":"access""#, TokenFault.badClaim),
            (#""typ":"ID""#, .badClaim), (#""x":1"#, .badClaim),
        ] as [(String, TokenFault?)])
    func aRefreshTokenMustDeclareItself(_ claim: String, _ expected: TokenFault?) {
        let key = Keys.hs256
        let issuer = TrustedIssuer(
            name: "test", issuer: nil, audiences: [], algorithms: .hmac, keys: KeySet([key.verificationKey]), use: .refresh)
        let token = Forge.token(payload: #"{"sub":"u1","exp":1700000600,\#(claim)}"#, key: key)
        #expect(fault(token, Trust(issuers: [issuer])) == expected)
    }
}
