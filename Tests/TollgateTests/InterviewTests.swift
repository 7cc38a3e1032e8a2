import Credentials
import Gate
import Testing
import Wire

@testable import Settings
@testable import tollgate

/// The questions of `tollgate init`, and the file that its answers make.
@Suite struct InterviewTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    private func file(_ answers: SetupAnswers, path: String = "config/tollgate.env") -> SetupFile {
        SetupFile(
            answers: answers, secrets: (String(repeating: "a", count: 43), String(repeating: "k", count: 43)), path: path,
            workingDirectory: "/srv")
    }

    private func loaded(_ answers: SetupAnswers) -> LoadedConfiguration {
        ConfigurationLoader(envFiles: [], environment: []).load(file(answers).text, as: "config/tollgate.env", now: Self.now)
    }

    private func answers(_ given: [SetupQuestion: String]) -> SetupAnswers {
        var answers = SetupAnswers()
        for (question, text) in given { answers[question] = text }
        return answers.completed
    }

    /// The questions in the order in which they are asked, given these answers; empty ones for the rest.
    private func asked(_ given: [SetupQuestion: String]) -> [SetupQuestion] {
        var interview = Interview()
        var asked: [SetupQuestion] = []
        while let question = interview.question, asked.count < 20 {
            asked.append(question)
            _ = interview.answer(given[question] ?? "", judge: { loaded($0).findings })
        }
        return asked
    }

    @Test func fiveQuestionsAreAskedAndMoreOnlyWhereAnAnswerNeedsThem() {
        let (provider, https): ([SetupQuestion: String], [SetupQuestion: String]) = (
            [.contract: "provider", .appleClientIDs: "org.example.app"], [.publicURL: "https://api.example.org"]
        )
        for (given, questions) in [
            ([:], [.upstream, .contract, .issuer, .redis, .publicURL]),
            ([.issuer: "firebase", .tenant: "my-app"], [.upstream, .contract, .issuer, .tenant, .redis, .publicURL]),
            (provider, [.upstream, .contract, .appleClientIDs, .googleClientIDs, .issuer, .redis, .publicURL]),
            ([.contract: "apple", .appleClientIDs: "a"], [.upstream, .contract, .appleClientIDs, .issuer, .redis, .publicURL]),
            (https, [.upstream, .contract, .issuer, .redis, .publicURL, .tlsCertificate, .trustedProxies]),
        ] as [([SetupQuestion: String], [SetupQuestion])] { #expect(asked(given) == questions) }
        #expect(asked([.issuer: "auth0", .tenant: "e.auth0.com", .audience: "api"]).contains(.audience))
    }

    @Test func emptyAnswersMakeAFileThatIsGood() {
        var interview = Interview()
        while interview.question != nil { #expect(interview.answer("  ", judge: { loaded($0).findings }) == nil) }
        #expect(interview.answers == SetupAnswers().completed)
        let findings = loaded(interview.answers).findings
        #expect(findings.faults == [] && findings.warnings == [])
    }

    @Test(
        arguments: [
            ([], "ftp://x", "is no address of an upstream"), ([""], "oauth", "is not known, write password, provider"),
            (["", ""], "okta", "is not known, write auth0, cognito"), (["", "", ""], "http://redis", "is no URL of a Redis"),
            (["", "apple"], "", "leaves no app that could sign in, give the client ids"),
            (["", "apple"], "a b", "is no option, write key=value"),
            (["", "provider", "", "a,,b"], "", "needs the apps whose tokens are accepted"),
            (["", "", "", "", "https://h", ""], "10.0.0.0/99", "is no network"),
            (["", "", "auth0"], "https://nowhere", "is no domain, write one like example.eu.auth0.com"),
            (["", "password"], "cognito", "cannot stand beside a sign-in API: "),
            (["", "", "cognito"], "eu_1", "is no id of a user pool, write one like eu-west-1_AbCdEf123"),
            (["", "", "cognito", "eu-west-1_A"], "a b", "is no audience, write it without spaces"),
            (["", "", "firebase"], "My App", "is no id of a Firebase project"),
            (["", "", "supabase"], "A!", "is no reference of a Supabase project"),
            (["", "", "clerk"], "", "is no domain"), (["", "", "keycloak"], "https://sso.example.org/main", "names no realm"),
            (["http://h:1\u{7}"], "", "contains a control character"),
        ] as [([String], String, String)])
    func aWrongAnswerIsRefusedInTheWordsOfItsSettingAndAskedAgain(_ before: [String], _ wrong: String, _ complaint: String) throws {
        var interview = Interview()
        var said: String?
        for text in before { said = interview.answer(text, judge: { loaded($0).findings }) }
        let question = interview.question
        if said == nil { said = interview.answer(wrong, judge: { loaded($0).findings }) }
        #expect(said?.contains(complaint) == true, "\(said ?? "accepted")")
        #expect(interview.question == question)
    }

    @Test func aKeyThatDoesNotFitAsksForTheCertificateAgain() {
        var interview = Interview()
        for text in ["", "", "", "", "https://h", "api.crt"] { #expect(interview.answer(text, judge: { _ in Findings() }) == nil) }
        #expect(interview.question == .tlsKey)
        let complaint = interview.answer("api.key") { answers in
            #expect(answers[.tlsCertificate] == "api.crt" && answers[.tlsKey] == "api.key")
            var findings = Findings()
            findings.fault(Finding(.builtIn, "TOLLGATE_TLS_CERT", "the key does not belong to the certificate"))
            return findings
        }
        #expect(complaint == "the key does not belong to the certificate" && interview.question == .tlsCertificate)
    }

    @Test(arguments: [
        (
            "auth0", "https://example.eu.auth0.com/", "https://api.example.org",
            "issuer=https://example.eu.auth0.com/ audience=https://api.example.org jwks=https://example.eu.auth0.com/.well-known/jwks.json algorithms=RS256"
        ),
        (
            "cognito", "eu-west-1_AbCdEf123", "1client",
            "issuer=https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEf123 audience=any jwks=https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEf123/.well-known/jwks.json algorithms=RS256"
        ),
        (
            "firebase", "my-app-1a2b3", "",
            "issuer=https://securetoken.google.com/my-app-1a2b3 audience=my-app-1a2b3 jwks=https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com algorithms=RS256"
        ),
        (
            "supabase", "abcdefghijklmnopqrst", "",
            "issuer=https://abcdefghijklmnopqrst.supabase.co/auth/v1 audience=authenticated jwks=https://abcdefghijklmnopqrst.supabase.co/auth/v1/.well-known/jwks.json algorithms=ES256,RS256"
        ),
        (
            "supabase", "auth.example.org", "",
            "issuer=https://auth.example.org/auth/v1 audience=authenticated jwks=https://auth.example.org/auth/v1/.well-known/jwks.json algorithms=ES256,RS256"
        ),
        (
            "clerk", "example-1.clerk.accounts.dev", "",
            "issuer=https://example-1.clerk.accounts.dev audience=any jwks=https://example-1.clerk.accounts.dev/.well-known/jwks.json algorithms=RS256"
        ),
        (
            "keycloak", "https://sso.example.org/realms/main/", "",
            "issuer=https://sso.example.org/realms/main audience=account jwks=https://sso.example.org/realms/main/protocol/openid-connect/certs algorithms=RS256"
        ),
    ])
    func anIssuersTrustLineFollowsFromOneOrTwoAnswers(_ kind: String, _ tenant: String, _ audience: String, _ line: String) throws {
        var given: [SetupQuestion: String] = [.issuer: kind, .tenant: tenant]
        if !audience.isEmpty { given[.audience] = audience }
        let answers = answers(given)
        #expect(try answers.outsideIssuer()?.trustLine == line)
        let loaded = loaded(answers)
        #expect(loaded.findings.faults == [] && loaded.findings.warnings == [])
        #expect(loaded.partial.settings.trusts.map(\.name) == [kind])
    }

    @Test func tokensWithoutAudienceAreBoundToTheirClient() {
        let cognito: [SetupQuestion: String] = [.issuer: "cognito", .tenant: "eu-west-1_A", .audience: "1client"]
        #expect(
            loaded(answers(cognito)).partial.settings.routes.first?.rule.claims.map { "\($0.name)=\($0.value)" } == ["client_id=1client"])
    }

    @Test(arguments: [("provider", "/api/v1"), ("password", "/api/v1"), ("apple", "/"), ("dlauth", "/"), ("anonymous", "/")])
    func eachContractSignsInAtTheBaseOfItsDocumentAndRefusalsAreInItsFormat(_ contract: String, _ base: String) {
        let given: [SetupQuestion: String] =
            switch contract {
            case "provider": [.contract: contract, .googleClientIDs: "1-a.apps.googleusercontent.com,2"]
            case "apple": [.contract: contract, .appleClientIDs: "org.example.app"]
            default: [.contract: contract]
            }
        let loaded = loaded(answers(given))
        let settings = loaded.partial.settings
        #expect(loaded.findings.faults == [] && loaded.findings.warnings == [], "\(loaded.findings)")
        #expect(
            settings.contracts == ["\(contract)@\(base)"]
                && settings.routes.map(\.rule.errors) == ContractID.allCases.filter { $0.name == contract }.map { Dialect($0) })
        #expect(settings.providers.flatMap(\.clientIDs).count == (contract == "provider" ? 2 : contract == "apple" ? 1 : 0))
    }

    @Test func aProviderWithoutAnyAppIsAskedForAgain() {
        var interview = Interview()
        for text in ["", "provider", ""] { #expect(interview.answer(text, judge: { loaded($0).findings }) == nil) }
        #expect(interview.question == .googleClientIDs)
        #expect(interview.answer("", judge: { loaded($0).findings })?.contains("leaves no app that could sign in") == true)
        #expect(interview.question == .appleClientIDs)
    }

    @Test(arguments: [
        ("", ["127.0.0.1:8000"], 2), ("10.0.0.0/8 fd00::/8", ["0.0.0.0:8000"], 2), ("::1/128", ["127.0.0.1:8000"], 1),
    ])
    func behindALoadBalancerThatEndsTLSItListensForItOnPlainHTTP(_ networks: String, _ listen: [String], _ count: Int) {
        var given: [SetupQuestion: String] = [.publicURL: "https://api.example.org"]
        if !networks.isEmpty { given[.trustedProxies] = networks }
        let loaded = loaded(answers(given))
        let settings = loaded.partial.settings
        #expect(loaded.findings.faults == [] && loaded.findings.warnings == [], "\(loaded.findings)")
        #expect(settings.listeners.map(\.address.description) == listen && settings.tlsListeners.isEmpty)
        #expect(settings.trustedProxies.count == count && settings.issuer == "https://api.example.org")
    }

    @Test func everySettingHasACommentAndSecretsComeWithWhatNeedsThem() {
        let text = file(answers([.redis: "redis://u:p$%@h:1/2", .issuer: "clerk", .tenant: "a.b"])).text
        var isExplained = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.contains("=") && !line.hasPrefix("#") { #expect(isExplained, "\(line)") }
            isExplained = line.hasPrefix("#") || isExplained && !line.isEmpty
        }
        #expect(text.contains("TOLLGATE_ADMIN_TOKEN=aaaa") && text.contains("TOLLGATE_KEY_SECRET=kkkk"))
        #expect(text.contains(#"REDIS_URL="redis://u:p\$%@h:1/2""#))
        #expect(!file(answers([:])).text.contains("TOLLGATE_KEY_SECRET"))
    }

    @Test func pathsOfTheCommandBecomeAbsolute() {
        let answers = answers([.tlsCertificate: "tls/api.crt", .tlsKey: "/etc/api.key"])
        let text = file(answers).text
        #expect(text.contains("TOLLGATE_TLS_CERT=/srv/tls/api.crt\nTOLLGATE_TLS_KEY=/etc/api.key\n"))
        #expect(file(answers, path: "config/a.env").dataFolder == "../data" && file(answers, path: "a.env").dataFolder == "data")
        #expect(file(answers, path: "/etc/tollgate/tollgate.env").dataFolder == "/var/lib/tollgate")
    }
}
