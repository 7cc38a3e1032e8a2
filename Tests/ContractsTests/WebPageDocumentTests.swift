import HTTP
import Testing
import Wire

@testable import Contracts

/// The page at `/web/` as a browser gets it.
@Suite struct WebPageDocumentTests {
    private let page = WebPage(authBase: "/api/v1")

    private func get(_ path: String, query: String = "", _ fields: [(name: String, value: String)] = []) -> LocalResponse {
        page.answer(
            LocalRequest(
                method: "GET", target: path + query, path: path, query: query, fields: fields, body: [],
                client: IPAddress(v4: 0xC000_0201), requestID: "r-1"))
    }

    private func value(_ name: String, _ answer: LocalResponse) -> String? {
        let values = answer.fields.filter { $0.name == name }.map(\.value)
        return values.count == 1 ? values[0] : nil
    }

    private func text(_ answer: LocalResponse) -> String { String(decoding: answer.body, as: UTF8.self) }

    private var document: String { text(get("/web/")) }

    /// The files that the document names.
    private var files: [String] {
        Set(document.matches(of: /(?:href|src)="(assets\/[^"]+)"/).map { String($0.1) }).sorted()
    }

    @Test func theDocumentNamesWhereItsContractAnswers() {
        #expect(document.contains(#"<meta name="auth" content="/api/v1/auth">"#) && document.contains(#"<meta name="account" content="">"#))
        for base in ["", "/"] {
            let root = WebPage(authBase: base, accountBase: "/account").answer(
                LocalRequest(
                    method: "GET", target: "/web/", path: "/web/", query: "", fields: [], body: [], client: IPAddress(v4: 1), requestID: "")
            )
            #expect(text(root).contains(#"<meta name="auth" content="/auth">"#))
            #expect(text(root).contains(#"<meta name="account" content="/account">"#))
        }
    }

    @Test func everythingThatItLoadsIsThere() {
        #expect(files.count == 4)
        for file in files {
            let answer = get("/web/" + file)
            #expect(answer.status == 200 && !answer.body.isEmpty, "\(file)")
            #expect(value("Cache-Control", answer) == "public, max-age=31536000, immutable")
        }
        let script = files.first { $0.hasSuffix("page.js") } ?? ""
        #expect(text(get("/web/" + script)).contains(#"from "./session.js""#))
    }

    /// The policy would stop them anyway; then the page would not work.
    @Test func nothingInItIsInlineOrFromElsewhere() {
        #expect(document.matches(of: /<script(?![^>]*\ssrc=)/).isEmpty)
        #expect(document.matches(of: /<style|\sstyle=|\son[a-z]+=|javascript:/).isEmpty)
        for body in [document] + files.map({ text(get("/web/" + $0)) }) {
            #expect(body.replacing("http://www.w3.org/2000/svg", with: "").matches(of: /https?:\/\/|url\(|@import/).isEmpty)
        }
    }

    /// Names and user agents are inserted as text; the script has no way to insert markup.
    @Test func noScriptMakesMarkupOrCodeOfText() {
        for file in files where file.hasSuffix(".js") {
            let script = text(get("/web/" + file))
            #expect(
                script.matches(of: /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|setTimeout\("/)
                    .isEmpty)
            #expect(script.matches(of: /localStorage\.|document\.cookie/).isEmpty)
        }
    }

    @Test(arguments: ["/web/", "/web/index.html", "/web/assets/0/page.js", "/web/assets/0/other.js", "/web/x"])
    func everyResponseHasTheSecurityFields(_ path: String) {
        let answer = get(path)
        let policy = value("Content-Security-Policy", answer)?.split(separator: ";").map { $0.drop { $0 == " " } } ?? []
        for directive in [
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "form-action 'none'", "base-uri 'none'",
            "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
        ] { #expect(policy.contains { $0 == directive }, "\(directive)") }
        #expect(!policy.contains { $0.contains("unsafe") || $0.contains("*") })
        #expect(value("X-Content-Type-Options", answer) == "nosniff")
        #expect(value("Referrer-Policy", answer) == "no-referrer")
        #expect(value("X-Frame-Options", answer) == "DENY")
    }

    @Test func aCachedFileIsAnswered304() throws {
        for path in ["/web/"] + files.map({ "/web/" + $0 }) {
            let tag = try #require(value("ETag", get(path)))
            for known in [tag, "W/\(tag)", "\"x\", \(tag)", "*"] {
                let answer = get(path, [("If-None-Match", known)])
                #expect(answer.status == 304 && answer.body.isEmpty, "\(path) \(known)")
            }
            #expect(get(path, [("if-none-match", "\"x\"")]).status == 200)
        }
    }

    @Test func theDocumentIsRevalidated() {
        #expect(value("Cache-Control", get("/web/")) == "no-cache")
        #expect(value("Cache-Control", get("/web/assets/0123456789abcdef/page.js")) == "no-cache")
    }

    @Test func missingFilesAre404() {
        for path in ["/web/x", "/web/assets/", "/web/assets/0/other.js", "/web/assets/0/x/page.js"] {
            let answer = get(path)
            #expect(answer.status == 404, "\(path)")
            #expect(value("Content-Type", answer) == "text/plain; charset=utf-8")
        }
    }

    @Test func withoutItsSlashItIsFoundAllTheSame() {
        let answer = get("/web", query: "?a=b")
        #expect(answer.status == 308)
        #expect(value("Location", answer) == "/web/?a=b")
    }
}
