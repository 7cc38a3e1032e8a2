import Mail
import Testing

@testable import Accounts
@testable import Credentials
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

    @Test func deviceKeysAreOfferedUnlessSet() {
        let policies = load("TOLLGATE_DEVICE_KEY_DLAUTH=required\nTOLLGATE_DEVICE_KEY_APPLE=off\n" + oneRoute).partial.sessionPolicies
        #expect(ContractID.allCases.map { policies[$0].deviceKey } == [.offered, .offered, .required, .off, .offered])
    }

    @Test(arguments: [
        ("", "gate.test"), ("TOLLGATE_MAIL_FROM=\"Example <a@b.test>\"", "Example"),
        ("TOLLGATE_APP_NAME=\"Ada & Co\"", "Ada & Co"), ("TOLLGATE_MAIL_FROM=\"Example <a@b.test>\"\nTOLLGATE_APP_NAME=Reader", "Reader"),
    ])
    func mailsNameTheAppElseTheSenderElseTheHost(_ lines: String, _ name: String) {
        #expect(load("TOLLGATE_PUBLIC_URL=https://gate.test\n\(lines)\n" + oneRoute).partial.mail.signature == name)
    }
}
