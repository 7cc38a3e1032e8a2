import Credentials
import Fetch
import Gate
import Testing
import Wire

@testable import Issuers
@testable import tollgate

/// The requests and responses of the refresh endpoints that contracts describe.
@Suite struct RefreshFormTests {
    private static func answered(_ form: RefreshForm, _ body: String) -> RefreshedTokens? {
        form.tokens(in: Array(body.utf8), insteadOf: Array("r1".utf8))
    }

    private static func tokens(_ access: String, _ refresh: String?) -> RefreshedTokens {
        RefreshedTokens(access: Array(access.utf8), refresh: refresh.map { Array($0.utf8) })
    }

    /// For each format: request, response, and the tokens parsed from it.
    static let table: [(ContractID, String, String, RefreshedTokens?)] = [
        (.password, #"{"refresh":"r1"}"#, #"{"access":"a"}"#, tokens("a", nil)),
        (.password, #"{"refresh":"r1"}"#, #"{"access":"a","refresh":"r2"}"#, tokens("a", "r2")),
        (.provider, #"{"refreshToken":"r1"}"#, #"{"accessToken":"a","refreshToken":"r2","expiresIn":5}"#, tokens("a", "r2")),
        (.provider, #"{"refreshToken":"r1"}"#, #"{"accessToken":"a","refreshToken":"r1"}"#, tokens("a", nil)),
        (.dlauth, #"{"refresh_token":"r1"}"#, #"{"access_token":"a","token":"b","refresh_token":"r2"}"#, tokens("a", "r2")),
        (.dlauth, #"{"refresh_token":"r1"}"#, #"{"token":"b","refresh_token":"r2"}"#, tokens("b", "r2")),
        (.anonymous, #"{"refreshToken":"r1"}"#, #"{"sessionToken":"a","refreshToken":"r2"}"#, tokens("a", "r2")),
        (.anonymous, #"{"refreshToken":"r1"}"#, #"{"accessToken":"a","refreshToken":"r2"}"#, nil),
        (.provider, #"{"refreshToken":"r1"}"#, #"{"accessToken":null}"#, nil),
        (.provider, #"{"refreshToken":"r1"}"#, #"{"accessToken":["a"]}"#, nil),
        (.provider, #"{"refreshToken":"r1"}"#, #"{"accessToken":"a","refreshToken":"r 2"}"#, nil),
        (.provider, #"{"refreshToken":"r1"}"#, #"{"accessToken":"a","refreshToken":""}"#, nil),
        (.provider, #"{"refreshToken":"r1"}"#, "hello", nil), (.provider, #"{"refreshToken":"r1"}"#, "", nil),
    ]

    @Test(arguments: table)
    func eachFormatHasItsRequestAndResponse(_ row: (contract: ContractID, question: String, answer: String, tokens: RefreshedTokens?)) {
        let form = RefreshForm(row.contract)
        #expect(String(decoding: form.request(Array("r1".utf8)), as: UTF8.self) == row.question)
        #expect(Self.answered(form, row.answer) == row.tokens)
    }

    @Test func aTokenCannotBreakOutOfTheQuestion() {
        let question = RefreshForm(.password).request(Array(#"r","admin":"yes"#.utf8))
        #expect(String(decoding: question, as: UTF8.self) == #"{"refresh":"r\",\"admin\":\"yes"}"#)
    }

    static let verdicts: [(EndedTransfer, TokenRefreshOutcome)] = [
        (.init(status: 200, body: Array(#"{"access":"a"}"#.utf8)), .refreshed(tokens("a", nil))),
        (.init(status: 201, body: Array(#"{"access":"a"}"#.utf8)), .refreshed(tokens("a", nil))),
        (.init(status: 200, body: []), .unavailable(retryAfterSeconds: 1)),
        (.init(status: 400), .refused), (.init(status: 401), .refused), (.init(status: 403), .refused), (.init(status: 404), .refused),
        (.init(status: 408), .unavailable(retryAfterSeconds: 1)), (.init(status: 429), .unavailable(retryAfterSeconds: 1)),
        (.init(status: 302), .unavailable(retryAfterSeconds: 1)), (.init(status: 500), .unavailable(retryAfterSeconds: 1)),
        (.init(status: 503), .unavailable(retryAfterSeconds: 1)), (.init(), .unavailable(retryAfterSeconds: 1)),
        (.init(status: 401, failure: "cut"), .unavailable(retryAfterSeconds: 1)),
    ]

    @Test(arguments: verdicts) func onlyADefiniteVerdictRefuses(_ answer: EndedTransfer, _ outcome: TokenRefreshOutcome) {
        let order = RefreshOrder(issuer: "i", isOwn: false, user: "u", session: "", token: Array("r1".utf8))
        #expect(ExternalRefresher.outcome(answer, RefreshForm(.password), order) == outcome)
    }

    static let outcomes: [TokenRefreshOutcome] = [
        .refused, .unavailable(retryAfterSeconds: 7), .refreshed(tokens("a.b.c", "r2")), .refreshed(tokens("a.b.c", nil)),
    ]

    @Test(arguments: outcomes) func aStoredOutcomeDecodesToTheSame(_ outcome: TokenRefreshOutcome) {
        #expect(TokenRefreshOutcome(stored: outcome.stored) == outcome)
    }

    @Test func malformedStoredOutcomesAreNil() {
        for bytes in [[], [9], [1], [1, 0, 0], [2], [3, 0, 0, 0, 0, 0, 0, 0, 9, 1], [2] + Array(repeating: 255, count: 9)] as [[UInt8]] {
            #expect(TokenRefreshOutcome(stored: bytes) == nil, "\(bytes)")
        }
    }
}
