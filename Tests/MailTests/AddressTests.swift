import TestThreads
import Testing
import Wire

@testable import Mail

/// Header injection: an address or a name stays one address on one line.
@Suite(.ownThread) struct AddressTests {
    @Test(arguments: [
        ("ada@example.org", "ada@example.org"), ("ada.lovelace+x@mail.example.org", "ada.lovelace+x@mail.example.org"),
        ("o'neil@example.org", "o'neil@example.org"), ("ada@[127.0.0.1]", "ada@[127.0.0.1]"), ("ädä@exämple.org", "ädä@exämple.org"),
        ("a..b@example.org", "\"a..b\"@example.org"), (".a@example.org", "\".a\"@example.org"),
        ("a(b)@example.org", "\"a(b)\"@example.org"),
        ("a,b@example.org", "\"a,b\"@example.org"), ("a<b>@example.org", "\"a<b>\"@example.org"),
        ("a@b@example.org", "\"a@b\"@example.org"),
        ("a\"b@example.org", "\"a\\\"b\"@example.org"), ("a\\@example.org", "\"a\\\\\"@example.org"),
        ("a:;@example.org", "\"a:;\"@example.org"),
        ("ada@example.org>,<eve@example.org", "\"ada@example.org>,<eve\"@example.org"),
    ])
    func anAddressIsWrittenSoThatItMeansNoOther(_ raw: String, _ written: String) {
        #expect(MailAddress(raw)?.text == written)
    }

    @Test(arguments: [
        "", "ada", "@example.org", "ada@", "ada@.org", "ada@example..org", "ada@example.org.", "ada@exa mple.org", "a b@example.org",
        "ada@example.org\r\nBcc: eve@example.org", "ada\r\n@example.org", "ada\n@example.org", "ada\0@example.org", "ada@example.org\0",
        "ada@example.org, eve@example.org", "ada@example.org;eve", "ada\u{2028}@example.org",
        "ada\u{202E}@example.org", "ada\u{85}@example.org", "ada@[127.0.0.1", "ada@[]", "ada@[1.2.3.4]x", "ada@ex(a)mple.org",
        "\(String(repeating: "a", count: 250))@b.org",
    ])
    func invalidAddressesAndHeaderInjectionsAreRefused(_ raw: String) {
        #expect(MailAddress(raw) == nil)
    }

    @Test(arguments: [
        ("no-reply@example.org", "no-reply@example.org"), ("Example <no-reply@example.org>", "Example <no-reply@example.org>"),
        ("\"Example, Inc.\" <a@example.org>", "\"Example, Inc.\" <a@example.org>"),
        ("Example, Inc. <a@example.org>", "\"Example, Inc.\" <a@example.org>"),
        ("<a@example.org>", "a@example.org"), ("Zoë <a@example.org>", "=?utf-8?Q?Zo=C3=AB?= <a@example.org>"),
        ("A\r\nBcc: x <a@example.org>", "=?utf-8?Q?A=0D=0ABcc=3A_x?= <a@example.org>"),
    ])
    func aSenderIsWrittenAsAHeaderCarriesIt(_ text: String, _ header: String) throws {
        #expect(try Sender(text).header == header)
    }

    @Test(arguments: ["", "Example", "Example <>", "Example <a@b", "a@example.org, b@example.org", "A <a@example.org> B <b@example.org\n>"])
    func invalidSendersAreRefused(_ text: String) {
        #expect(throws: ParseError.self) { try Sender(text) }
    }

    @Test(arguments: [
        ("Your code", "Your code"), ("50% off?", "50% off?"), ("", ""), ("=?utf-8?Q?x?=", "=?utf-8?Q?=3D=3Futf=2D8=3FQ=3Fx=3F=3D?="),
        ("Grüße", "=?utf-8?Q?Gr=C3=BC=C3=9Fe?="), ("a\r\nBcc: b", "=?utf-8?Q?a=0D=0ABcc=3A_b?="), ("a\0b", "=?utf-8?Q?a=00b?="),
    ])
    func aSubjectStaysOneHeader(_ text: String, _ header: String) {
        #expect(HeaderText.unstructured(text) == header)
    }

    @Test func aLongSubjectIsFoldedBetweenWholeCharacters() {
        let header = HeaderText.unstructured(String(repeating: "€uro ", count: 40))
        let lines = header.split(separator: "\r\n")
        #expect(lines.count > 1)
        #expect(lines.dropFirst().allSatisfy { $0.hasPrefix(" =?") })
        for line in lines {
            let word = line.drop { $0 == " " }
            #expect(word.utf8.count <= 75)
            #expect(word.hasPrefix("=?utf-8?Q?") && word.hasSuffix("?="))
            // A character that is cut would leave its first bytes here.
            #expect(!word.hasSuffix("=E2?=") && !word.hasSuffix("=E2=82?="))
        }
    }
}
