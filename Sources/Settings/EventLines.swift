internal import Credentials
internal import Gate
internal import Wire

/// `TOLLGATE_EVENTS_<NAME>`: a service that is told what happens to accounts.
package struct EventsDeclaration: Hashable, Sendable {
    package var name: String
    package var url: String?
    /// The first one signs; several while one is replaced.
    package var secrets: [NamedFile] = []
    /// Words like `account.*` and `tier.changed`.
    package var kinds = ["*"]
    /// Whether the address may be one that the Internet does not lead to.
    package var allowsPrivate = false
    package var origin: Origin
}

extension EventsDeclaration: OptionTarget {
    package static let family = Setting.events
    package var lineName: String { name }
    package static let bare = Self(name: "", origin: .builtIn)

    package static let options = table {
        LineOption("url", ifSet: \.url, .url, "a URL", "where events are posted to")
        LineOption.secretFiles(\.secrets)
        LineOption("kinds", list: \.kinds, "account.*,tier.changed", "the kinds of events that are sent; all by default", TypedText.item)
        LineOption(
            "private", \.allowsPrivate, .flag(), values: "off, on",
            "whether the host may have an address that the Internet does not lead to")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(name: name, origin: line.entry.origin)
        line.refuseWords("url=https://crm.example.org/events secret-file=FILE")
        line.read(into: &self)
        line.requireWebhook("url=https://crm.example.org/events, where events are posted to")
    }
}

/// `TOLLGATE_HOOK_SIGNUP`: a service that is asked before an account is opened.
package struct SignUpHookDeclaration: Hashable, Sendable {
    package var url: String?
    package var secrets: [NamedFile] = []
    package var timeoutMilliseconds = 2_000
    /// Whether accounts are opened while it does not answer.
    package var opensOnFailure = false
    package var origin: Origin
}

extension SignUpHookDeclaration: OptionTarget {
    package static let family = Setting.signUpHook
    package var lineName: String { "signup" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption("url", ifSet: \.url, .url, "a URL", "the service that is asked, also at a private address")
        LineOption.secretFiles(\.secrets)
        LineOption("timeout", \.timeoutMilliseconds, .duration(100...10_000), values: "2s", "how long its answer may take")
        LineOption(
            "failure", \.opensOnFailure, .flag([("closed", false), ("open", true)]), values: "closed, open",
            "whether a sign-up is 503 or goes on when it does not answer")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("url=http://127.0.0.1:9000/signup secret-file=FILE")
        line.read(into: &self)
        line.requireWebhook("url=http://127.0.0.1:9000/signup, the service that is asked")
    }
}

extension OptionLine {
    fileprivate mutating func requireWebhook(_ url: String) {
        if !has("url") { fault("has no url=, write \(url)") }
        if !has("secret-file") { fault("has no secret-file=, write secret-file=FILE, the secret that signs what is posted") }
    }
}

extension LineOption {
    /// The secrets of a webhook.
    fileprivate static func secretFiles(_ path: any WritableKeyPath<Target, [NamedFile]> & Sendable) -> Self {
        LineOption("secret-file", "F, or F,F while it is replaced", "the secret that signs (`whsec_…`, or any bytes)", kind: .list) {
            line, target in
            let context = line.context
            target[keyPath: path] =
                (line.list("secret-file") { text throws(ParseError) in
                    let file = try OptionForm<NamedFile>.file.parse(text, context)
                    guard let key = WebhookSignature.key(file.bytes) else {
                        throw ParseError("holds no secret, behind whsec_ it must be base64")
                    }
                    guard key.count >= 16 else { throw ParseError("holds a secret that is easy to guess, use 24 bytes or more") }
                    return file
                }) ?? []
        } value: { target, _ in
            OptionValue(list: target[keyPath: path].map(\.path))
        }
    }
}
