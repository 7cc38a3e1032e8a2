import TestThreads
import Testing

/// Passkeys at the page at `/web/`, by Chromium's virtual authenticators.
@Suite(.serialized, .ownThread) struct PasskeyPageTests {
    private let gateway: Gateway
    private let page: Page

    init() throws {
        func settings(_ origins: String) -> String {
            "TOLLGATE_CONTRACTS=password@/api/v1\nTOLLGATE_ACCOUNT=/account\nTOLLGATE_PASSKEY=\"rp-id=localhost rp-name=Example\(origins)\""
        }
        gateway = try Gateway(settings(""))
        // The page's origin has the port that the gateway was given.
        try gateway.reload(settings(" origins=http://localhost:\(gateway.port)"))
        page = try Page(try Browser())
        try page.call("WebAuthn.enable")
    }

    /// An authenticator with a user who touches it at once; its id.
    private func authenticator(keepsKeys: Bool = true, verifies: Bool = true) throws -> String {
        let answer = try page.call(
            "WebAuthn.addVirtualAuthenticator",
            """
            "options":{"protocol":"ctap2","transport":"internal","hasResidentKey":\(keepsKeys),"hasUserVerification":\(verifies),
            "isUserVerified":true,"automaticPresenceSimulation":true}
            """)
        return try must(answer["authenticatorId"])
    }

    private func credentials(_ authenticator: String) throws -> [JSON] {
        try page.call("WebAuthn.getCredentials", "\"authenticatorId\":\"\(authenticator)\"")["credentials"].array
    }

    private func touch(_ authenticator: String, _ isThere: Bool) throws {
        try page.call("WebAuthn.setAutomaticPresenceSimulation", "\"authenticatorId\":\"\(authenticator)\",\"enabled\":\(isThere)")
    }

    private func waitForAccount() throws {
        try page.wait("!document.getElementById('account').hidden && document.getElementById('account').ariaBusy === 'false'")
    }

    private func register() throws {
        try page.open("http://localhost:\(gateway.port)/web/")
        try page.wait("!document.getElementById('sign-in').hidden")
        try page.click("a[href='#register']")
        try page.wait("!document.getElementById('register').hidden")
        try page.fill("#register-email", "ada@example.org")
        try page.fill("#register-password", goodPassword)
        try page.click("#register .primary")
        try waitForAccount()
    }

    private func signOut() throws {
        try page.click("#sign-out")
        try page.wait("!document.getElementById('sign-in').hidden")
    }

    @Test func aPasskeyIsAddedSignsInAndIsRemoved() throws {
        let phone = try authenticator()
        try register()
        try page.click("#add-passkey")
        // The button takes no click before it has told.
        try page.wait("document.getElementById('status').textContent.startsWith('You can sign in with this passkey')")
        try page.wait("document.getElementById('add-passkey').ariaBusy === null")
        let made = try credentials(phone)
        #expect(made.map { $0["isResidentCredential"].bool } == [true])
        #expect(try made.first?["userHandle"].text?.isEmpty == false && page.text("#identities").contains("Chrome on Linux"))
        // The second is refused by the authenticator, which has one of the account.
        try page.click("#add-passkey")
        try page.wait("document.getElementById('status').textContent.startsWith('This device has a passkey')")
        // Offered where the email is filled in, and used at once.
        try page.click("#sign-out")
        try page.wait("document.getElementById('status').textContent === 'You are signed out.'")
        try waitForAccount()
        // By the button, which ends the offer.
        try touch(phone, false)
        try signOut()
        try touch(phone, true)
        try page.click("#passkey-sign-in")
        try waitForAccount()
        #expect(try page.text("#identities .quiet").hasPrefix("ada@example.org"))
        // The browser is told that it is gone.
        try touch(phone, false)
        try page.click("#identities button[aria-label^='Remove']")
        try page.wait("document.getElementById('status').textContent.startsWith('Removed: ')")
        try signOut()
        try touch(phone, true)
        try page.click("#passkey-sign-in")
        try page.wait("document.querySelector('#sign-in .message').textContent === 'No account has this passkey.'")
        try eventually("the authenticator has forgotten it") { try credentials(phone).isEmpty }
        #expect(try page.complaints() == [])
    }

    /// What needs a newer sign-in is reached by one touch, in the same session.
    @Test func aTouchRenewsTheSession() throws {
        _ = try authenticator()
        try register()
        try page.click("#add-passkey")
        try page.wait("document.getElementById('status').textContent.startsWith('You can sign in with this passkey')")
        let aging =
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], 9); c.execute('UPDATE sessions SET signed_in_at = 1'); c.commit()"
        _ = try mustRun("python3", ["-c", aging, gateway.folder.file("data/accounts.db")])
        let session = try page.run("sessionStorage.getItem('refresh')").text
        try page.click("#identities button[aria-label^='Remove']")
        // The browser offers it where the email is filled in, and it is used at once.
        try eventually("the passkey is used") {
            gateway.process.output.now.contains { $0.contains("/account/passkeys/authentication/verify") }
        }
        try waitForAccount()
        try page.wait("document.querySelectorAll('#sessions li').length === 1")
        #expect(try session != nil && page.run("sessionStorage.getItem('refresh')").text == session)
        try page.click("#identities button[aria-label^='Remove']")
        try page.wait("document.getElementById('status').textContent.startsWith('Removed: ')")
        #expect(try page.complaints() == [])
    }

    /// Authenticators that cannot keep a passkey or verify a user make none.
    @Test(arguments: [(false, true), (true, false)]) func anAuthenticatorIsNotEnough(_ keepsKeys: Bool, _ verifies: Bool) throws {
        let key = try authenticator(keepsKeys: keepsKeys, verifies: verifies)
        try register()
        try page.click("#add-passkey")
        try page.wait("document.getElementById('add-passkey').ariaBusy === null")
        #expect(try credentials(key).isEmpty && !page.text("#identities").contains("Passkey"))
        #expect(try page.complaints() == [])
    }
}
