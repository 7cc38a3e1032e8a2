import TestThreads
import Testing

/// The second factor at the page at `/web/`, in a browser, which is the authenticator app, too.
@Suite(.serialized, .ownThread) struct FactorPageTests {
    private let gateway: Gateway
    private let page: Page

    init() throws {
        gateway = try Gateway("TOLLGATE_CONTRACTS=password@/api/v1\nTOLLGATE_ACCOUNT=/account\nTOLLGATE_FACTOR=offered")
        page = try Page(try Browser())
    }

    /// The code of an authenticator app (RFC 6238), `steps` from now.
    private func code(_ secret: String, _ steps: Int = 0) throws -> String {
        let script = """
            (async () => {
              const bits = [...\(quotedJSON(secret))].map((letter) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2));
              const bytes = bits.map((five) => five.padStart(5, "0")).join("").match(/.{8}/g).map((byte) => parseInt(byte, 2));
              const hmac = { name: "HMAC", hash: "SHA-1" };
              const key = await crypto.subtle.importKey("raw", new Uint8Array(bytes), hmac, false, ["sign"]);
              const step = new DataView(new ArrayBuffer(8));
              step.setUint32(4, Math.floor(Date.now() / 30_000) + \(steps));
              const mac = new DataView(await crypto.subtle.sign("HMAC", key, step));
              return String((mac.getUint32(mac.getUint8(19) & 15) & 0x7fffffff) % 1e6).padStart(6, "0");
            })()
            """
        return try must(try page.run(script))
    }

    private func isOpen(_ dialog: String) throws -> Bool { try page.run("document.getElementById('\(dialog)').open").bool == true }

    private func waitForAccount() throws {
        try page.wait("!document.getElementById('account').hidden && document.getElementById('account').ariaBusy === 'false'")
    }

    private func submit(_ view: String) throws {
        try page.fill("#\(view)-email", "ada@example.org")
        try page.fill("#\(view)-password", goodPassword)
        try page.click("#\(view) .primary")
        try waitForAccount()
    }

    /// The user's answer in the dialog, once it asks.
    private func enter(_ code: String) throws {
        try page.wait("document.getElementById('code-dialog').open")
        try page.fill("#code", code)
        try page.press("Enter")
    }

    private func remove() throws { try page.click("#identities button[aria-label='Remove Authenticator app']") }

    @Test func aFactorIsSetUpProvenAndRemoved() throws {
        try page.open("http://127.0.0.1:\(gateway.port)/web/")
        try page.wait("!document.getElementById('sign-in').hidden")
        try page.click("a[href='#register']")
        try page.wait("!document.getElementById('register').hidden")
        try submit("register")
        try page.run("document.getElementById('add-factor').focus()")
        try page.press("Enter")
        try page.wait("document.getElementById('code-dialog').open")
        #expect(try page.run("document.activeElement.id").text == "code")
        #expect(try page.run("document.querySelector('#secret a').href").text?.hasPrefix("otpauth://totp/") == true)
        let secret = try page.text("#secret .code").replacing(" ", with: "")
        #expect(secret.utf8.count == 32)
        try enter("12")
        try page.wait("document.getElementById('code-hint').textContent.startsWith('This code is wrong')")
        #expect(try isOpen("code-dialog") && page.run("sessionStorage.length").int == 1, "a wrong code ends no session")
        try enter(try code(secret))
        try page.wait("document.getElementById('backup-dialog').open")
        let codes = try page.text("#backup-codes").split(whereSeparator: \.isWhitespace).map(String.init)
        #expect(codes.count == 10 && Set(codes).count == 10)
        #expect(try !isOpen("code-dialog") && page.run("document.querySelector('#secret .code').textContent").text?.isEmpty == true)
        #expect(try page.run("document.querySelector('#secret a').hasAttribute('href')").bool == false, "the secret is gone")
        try page.click("#backup-close")
        try page.wait("document.getElementById('backup-codes').childElementCount === 0")
        try page.wait("document.getElementById('identities').innerText.includes('10 backup codes left')")
        #expect(try page.run("document.activeElement.id").text == "ways-title")
        #expect(try page.run("document.getElementById('add-factor').hidden").bool == true)
        // A new session has proven nothing: it is asked, and a user who gives up changes nothing.
        try page.click("#sign-out")
        try page.wait("!document.getElementById('sign-in').hidden")
        try submit("sign-in")
        for key in ["Escape", "cancel"] {
            try remove()
            try page.wait("document.getElementById('code-dialog').open")
            #expect(try page.text("#code-title") == "Confirm that it is you")
            #expect(try page.run("document.getElementById('secret').hidden").bool == true)
            if key == "Escape" { try page.press(key) } else { try page.click("#code-cancel") }
            try page.wait("!document.getElementById('code-dialog').open && !document.querySelector('#identities [aria-busy]')")
        }
        #expect(try page.text("#identities").contains("Authenticator app"))
        // One proof serves what follows, too.
        try page.click("#renew-codes")
        try enter(codes[0])
        try page.wait("document.getElementById('backup-codes').childElementCount === 10")
        try page.click("#backup-close")
        try remove()
        try page.wait("document.getElementById('status').textContent === 'Removed: Authenticator app.'")
        #expect(try !page.text("#identities").contains("Authenticator app"))
        #expect(try page.run("document.getElementById('add-factor').hidden").bool == false)
        #expect(try page.complaints() == [])
    }

    /// Else the factor would be added although the user has cancelled it, and no backup codes made.
    @Test func aCodeOnItsWayCannotBeCancelled() throws {
        try page.open("http://127.0.0.1:\(gateway.port)/web/")
        try page.wait("!document.getElementById('sign-in').hidden")
        try page.click("a[href='#register']")
        try page.wait("!document.getElementById('register').hidden")
        try submit("register")
        try page.click("#add-factor")
        try page.wait("document.getElementById('code-dialog').open")
        let secret = try page.text("#secret .code").replacing(" ", with: "")
        // The request waits until the test lets it go.
        try page.run("window.send = fetch, 0")
        try page.run("fetch = async (...all) => { await new Promise((go) => window.go = go); return send(...all) }, 0")
        try enter(try code(secret))
        try page.wait("window.go !== undefined")
        try page.click("#code-cancel")
        for _ in 0..<2 { try page.press("Escape") }
        #expect(try isOpen("code-dialog"))
        try page.run("fetch = window.send, window.go()")
        try page.wait("document.getElementById('backup-dialog').open")
        #expect(try !isOpen("code-dialog") && page.complaints() == [])
    }

    /// The account is deleted by the code that the user is asked for.
    @Test func aCodeOfTheAppIsAskedForBeforeTheAccountIsDeleted() throws {
        try page.open("http://127.0.0.1:\(gateway.port)/web/")
        let ada = try gateway.register("ada@example.org")
        let secret = try must(try JSON(gateway.send("POST /account/factors/totp", bearer: ada.access).text)["secret"])
        let confirmation = #"{"code":"\#(try code(secret))"}"#
        #expect(try gateway.send("POST /account/factors/totp/verify", confirmation, bearer: ada.access).status == 200)
        try page.wait("!document.getElementById('sign-in').hidden")
        try submit("sign-in")
        try page.click("#delete")
        try page.click("#delete-confirm")
        try enter(try code(secret, 1))
        try page.wait("!document.getElementById('closed').hidden")
        #expect(try page.text("#closed-title") == "Your account is deleted" && page.complaints() == [])
    }
}
