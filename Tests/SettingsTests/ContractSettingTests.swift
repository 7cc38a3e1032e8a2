import Mail
import Testing

@testable import Accounts
@testable import Settings
@testable import tollgate

/// Settings of contracts and their messages: lifetimes, and the name of the app.
@Suite struct ContractSettingTests {
    @Test func lifetimesAreTheDocumentsUnlessShortened() {
        let policies = load(
            "TOLLGATE_ACCESS_TTL_DLAUTH=15m\nTOLLGATE_REFRESH_TTL_DLAUTH=14d\nTOLLGATE_ACCESS_TTL_APPLE=1d\n" + oneRoute
        ).partial.sessionPolicies
        #expect(policies[.dlauth] == SessionPolicy(accessSeconds: 900, idleSeconds: 14 * 86_400, refresh: .rotating))
        // Without refresh tokens the session ends with the access token.
        #expect(policies[.apple] == SessionPolicy(accessSeconds: 86_400, idleSeconds: 86_400, refresh: .none))
        for contract in [ContractID.password, .provider, .anonymous] { #expect(policies[contract] == contract.sessionPolicy) }
    }

    @Test(arguments: [
        ("ACCESS_TTL_DLAUTH=2h", #""2h" is out of range, write a duration from 1s to 1h, which the document of dlauth allows"#),
        ("ACCESS_TTL_PROVIDER=1d", #""1d" is out of range, write a duration from 1s to 1h, which the document of provider allows"#),
        ("ACCESS_TTL_ANONYMOUS=16m", #""16m" is out of range, write a duration from 1s to 15m, which the document of anonymous allows"#),
        ("ACCESS_TTL_PASSWORD=8d", #""8d" is out of range, write a duration from 1s to 7d, which the document of password allows"#),
        ("ACCESS_TTL_PASSWORD=500ms", #""500ms" is out of range, write a duration from 1s to 7d, which the document of password allows"#),
        ("ACCESS_TTL_PASSWORD=soon", #""soon" is no duration, write one like 500ms, 10s, 5m, 24h or 30d"#),
        ("REFRESH_TTL_PASSWORD=31d", #""31d" is out of range, write a duration from 7d to 30d, which the access tokens of password and its document allow"#),
        ("REFRESH_TTL_PASSWORD=1d", #""1d" is out of range, write a duration from 7d to 30d, which the access tokens of password and its document allow"#),
        ("REFRESH_TTL_APPLE=1d", "is of a contract without refresh tokens, remove it"),
        ("ACCESS_TTL_DLAUHT=1h", "is the lifetime of no contract, the nearest is TOLLGATE_ACCESS_TTL_DLAUTH"),
    ])
    func aLifetimeOutOfBoundsIsAFaultThatNamesThem(_ line: String, _ message: String) {
        let name = line.split(separator: "=")[0]
        #expect(faults("TOLLGATE_\(line)\n" + oneRoute) == ["a.env:1: TOLLGATE_\(name): \(message)"])
    }

    @Test func aShorterSessionAllowsShorterRefreshes() {
        #expect(faults("TOLLGATE_ACCESS_TTL_PASSWORD=1h\nTOLLGATE_REFRESH_TTL_PASSWORD=1d\n" + oneRoute) == [])
    }

    @Test(arguments: [
        ("", "gate.test"), ("TOLLGATE_MAIL_FROM=\"Example <a@b.test>\"", "Example"),
        ("TOLLGATE_APP_NAME=\"Ada & Co\"", "Ada & Co"), ("TOLLGATE_MAIL_FROM=\"Example <a@b.test>\"\nTOLLGATE_APP_NAME=Reader", "Reader"),
    ])
    func mailsNameTheAppElseTheSenderElseTheHost(_ lines: String, _ name: String) {
        #expect(load("TOLLGATE_PUBLIC_URL=https://gate.test\n\(lines)\n" + oneRoute).partial.mail.signature == name)
    }

    @Test(arguments: [
        ("TOLLGATE_CONTRACTS=provider@/api/v1", ["a.env:1: TOLLGATE_CONTRACTS: provider@/api/v1 refuses every sign-in, as none of its providers is set up: set TOLLGATE_PROVIDER_APPLE or TOLLGATE_PROVIDER_GOOGLE to the client-ids= of your apps, or leave the contract out"]),
        ("TOLLGATE_CONTRACTS=\"apple@/ provider@/p\"\nTOLLGATE_PROVIDER_GOOGLE=client-ids=g", ["a.env:1: TOLLGATE_CONTRACTS: apple@/ refuses every sign-in, as none of its providers is set up: set TOLLGATE_PROVIDER_APPLE to the client-ids= of your apps, or leave the contract out"]),
        ("TOLLGATE_CONTRACTS=\"apple@/ provider@/p\"\nTOLLGATE_PROVIDER_APPLE=client-ids=g", []), ("TOLLGATE_CONTRACTS=\"password@/ anonymous@/\"", []),
        ("TOLLGATE_LOG=info", []),
    ] as [(String, [String])])
    func aContractWhoseProvidersAreAllMissingIsNamed(_ text: String, _ expected: [String]) { #expect(warnings(text + "\n") == expected) }
}
