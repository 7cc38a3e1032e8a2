import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// The page behind the link in a mail to an address that an account had before. Showing it changes nothing, since mail scanners follow links;
/// its button gives the account the address back.
package struct WayBackPage: Sendable {
    /// Below the base of `TOLLGATE_ACCOUNT`.
    package static let path = "/email/return"

    static let rows = [
        row("way-back", .get) { page in await page.show() }, row("take-back", .post) { page in await page.take() },
    ]

    private static func row(
        _ name: String, _ method: HTTP.Method, _ answer: @escaping @Sendable (Self) async -> LocalResponse
    ) -> CatalogueEndpoint {
        CatalogueEndpoint(owner: .account, name: name, dialect: .problem, method: method, path: path) { services, request in
            await answer(Self(services: services, request: request))
        }
    }

    private let services: ContractServices
    private let request: ContractRequest

    private var words: Words {
        let best = request.caller.languages.flatMap { PreferredLanguages($0).best(of: Set(Self.words.keys)) }
        return Self.words[best ?? "en"] ?? Self.english
    }

    private var token: String { request.parameter("token") ?? "" }

    private func show() async -> LocalResponse {
        do throws(AccountFailure) {
            guard let notices = services.life?.notices, try await notices.leadsBack(token) else { return page(404, words.spent) }
            return page(200, words.question, button: words.button)
        } catch {
            return page(503, words.later)
        }
    }

    private func take() async -> LocalResponse {
        do throws(AccountFailure) {
            guard let notices = services.life?.notices, let returned = try await notices.takeBack(token, caller: request.caller) else {
                return page(404, words.spent)
            }
            guard returned.hadPassword, let email = returned.account.email else { return page(200, words.done) }
            // Where no mail can go now, the user asks for it by the app.
            do throws(AccountFailure) { try await services.resets.forgot(email, caller: request.caller) } catch {}
            return page(200, words.done + " " + words.reset)
        } catch {
            if case .tooManyAttempts = error { return page(429, words.later) }
            return page(503, words.later)
        }
    }

    private func page(_ status: Int, _ text: String, button: String? = nil) -> LocalResponse {
        // The form goes to the page's own URL, which has the token.
        let form = button.map { "<form method=\"post\"><button>\($0)</button></form>\n" } ?? ""
        let html = """
            <!doctype html>
            <html lang="\(words.language)">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width">
            <title>\(words.title)</title>
            <style>\(Self.style)</style>
            <h1>\(words.title)</h1>
            <p>\(text)</p>
            \(form)</html>

            """
        return LocalResponse(status: status, contentType: "text/html; charset=utf-8", body: Array(html.utf8), fields: Self.fields)
    }

    private static let style =
        ":root{color-scheme:light dark}body{max-width:32rem;margin:3rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif}button{font:inherit;padding:.6rem 1rem}"

    private static let fields: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; style-src 'sha256-\(Base64.encode(Digest.sha256(Array(style.utf8).rawBytes).rawBytes, isPadded: true))'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
    ]

    private struct Words {
        let language: String
        let title: String
        let question: String
        let button: String
        let done: String
        /// Behind `done`, where a password was removed.
        let reset: String
        let spent: String
        let later: String
    }

    private static let words = ["en": english, "de": german]

    private static let english = Words(
        language: "en", title: "Take your account back",
        question:
            "The email of your account was changed. If that was not you, this button puts your address back, signs the account out everywhere, and removes its password.",
        button: "Take the account back", done: "Your account has your address again, and all its sessions have ended.",
        reset: "We have sent you a mail to choose a new password.",
        spent: "This link was used, or it is older than 72 hours.", later: "That does not work right now. Try again in a few minutes.")

    private static let german = Words(
        language: "de", title: "Hole dein Konto zurück",
        question:
            "Die E-Mail-Adresse deines Kontos wurde geändert. Falls du das nicht warst, setzt dieser Knopf deine Adresse wieder ein, meldet das Konto überall ab und entfernt sein Passwort.",
        button: "Konto zurückholen", done: "Dein Konto hat wieder deine Adresse, und alle Sitzungen sind beendet.",
        reset: "Wir haben dir eine Mail geschickt, mit der du ein neues Passwort wählst.",
        spent: "Dieser Link wurde benutzt, oder er ist älter als 72 Stunden.",
        later: "Das geht gerade nicht. Versuche es in einigen Minuten noch einmal.")
}
