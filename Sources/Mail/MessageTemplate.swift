internal import Wire

/// The messages, each with a template for every language: `NAME.txt` and, for a mail, `NAME.html`.
enum TemplateName: String, CaseIterable, Sendable {
    case signUp = "sign-up"
    case code
    case emailCode = "email-code"
    case recovery
    case sms
    /// A link to choose a new password.
    case reset
    /// A token for that, where there is no page of reset links.
    case resetToken = "reset-token"
    case newDevice = "new-device"
    case passwordChanged = "password-changed"
    case emailChanged = "email-changed"
    /// To the address that the account had before.
    case emailLeft = "email-left"
    case identityLinked = "identity-linked"
    case identityUnlinked = "identity-unlinked"
    case deviceKeyRefused = "device-key-refused"
    case passkeyAdded = "passkey-added"
    case passkeyRemoved = "passkey-removed"
    case passkeyCounterFell = "passkey-counter"
    case phoneChanged = "phone-changed"
    case factorAdded = "factor-added"
    case factorRemoved = "factor-removed"
    /// A notice to a phone, whatever has changed.
    case smsNotice = "sms-notice"

    var isSMS: Bool { self == .sms || self == .smsNotice }

    /// The placeholder without which the message is of no use; nil if there is none.
    var demanded: String? {
        switch self {
        case .signUp, .code, .emailCode, .recovery, .sms, .resetToken: "code"
        case .reset: "link"
        case .newDevice, .passwordChanged, .emailChanged, .emailLeft, .identityLinked, .identityUnlinked, .phoneChanged, .smsNotice,
            .passkeyAdded, .passkeyRemoved, .passkeyCounterFell, .factorAdded, .factorRemoved, .deviceKeyRefused:
            nil
        }
    }

    /// The placeholder of a notice's detail.
    var detail: String {
        switch self {
        case .identityLinked, .identityUnlinked: "provider"
        case .passkeyAdded, .passkeyRemoved, .passkeyCounterFell: "passkey"
        default: "device"
        }
    }

    /// The values of its placeholders in an example.
    var example: [String: String] {
        var values = ["app": "Example"]
        switch self {
        case .signUp, .code, .emailCode, .recovery, .sms, .resetToken, .reset:
            values["span"] = "10 minutes"
            values["minutes"] = "10"
            values[demanded ?? "code"] = "123456"
        case .emailLeft: (values["link"], values["until"]) = ("https://example.org/return?token=x", "2027-01-18 08:00 UTC")
        case .identityLinked, .identityUnlinked: values["provider"] = "google"
        case .passkeyAdded, .passkeyRemoved, .passkeyCounterFell: values["passkey"] = "iPhone"
        case .newDevice, .passwordChanged, .emailChanged, .phoneChanged, .factorAdded, .factorRemoved, .deviceKeyRefused, .smsNotice: break
        }
        if demanded == nil { (values["device"], values["address"], values["time"]) = ("iPhone", "192.0.2.7", "2027-01-15 08:00 UTC") }
        return values
    }
}

/// The text of a message, with placeholders like `{code}`.
///
/// It consists of paragraphs with empty lines between them. The first of a mail is its subject. A line whose placeholder has no value is
/// left out. A paragraph that is a code, or text and a link like `Choose a new password: {link}`, stands out; those behind it are small print.
struct MessageTemplate: Sendable, Equatable {
    private let subject: String
    private let paragraphs: [[String]]
    private let html: String?

    /// Throws for a text without a subject, without the demanded placeholder, or with an unknown one.
    init(_ name: TemplateName, text: String, html: String? = nil) throws(ParseError) {
        var lines = text.replacing("\r\n", with: "\n").split(separator: "\n", omittingEmptySubsequences: false).map { Self.trimmed($0) }
        var subject = ""
        if !name.isSMS {
            guard let first = lines.first, first.hasPrefix("Subject: "), lines.count > 1, lines[1].isEmpty else {
                throw ParseError("has no subject, begin it with a line like Subject: Your code for {app}, and an empty line")
            }
            subject = String(first.dropFirst(9))
            lines.removeFirst()
        }
        paragraphs = lines.split(separator: "").map(Array.init)
        self.subject = subject
        self.html = html
        let example = name.example
        for part in [subject, html ?? ""] + lines {
            if let unknown = Self.fill(part, example).missing {
                throw ParseError(
                    "has {\(unknown)}, which has no value, use \(example.keys.sorted().map { "{\($0)}" }.joined(separator: ", "))")
            }
        }
        guard let demanded = name.demanded else { return }
        guard [text, html ?? text].allSatisfy({ $0.contains("{\(demanded)}") }) else {
            throw ParseError("has no {\(demanded)}, without which the message is of no use")
        }
    }

    /// The letter of these values.
    func letter(_ values: [String: String], language: String, signature: String) -> Letter {
        var blocks: [Letter.Block] = []
        var isSmall = false
        for paragraph in paragraphs {
            guard let block = Self.block(paragraph, values, isSmall: isSmall) else { continue }
            switch block {
            case .code, .link: isSmall = true
            case .text, .note: break
            }
            blocks.append(block)
        }
        var letter = Letter(subject: Self.fill(subject, values).text, blocks: blocks, signature: signature)
        letter.language = language
        let written = html.map { Self.fill($0, values.mapValues(Letter.escaped)) }
        if let written, written.missing == nil { letter.ownHTML = written.text }
        return letter
    }

    /// The text of a message that is no mail.
    func text(_ values: [String: String]) -> String {
        paragraphs.compactMap { Self.filled($0, values) }.joined(separator: "\n\n")
    }

    private static func block(_ lines: [String], _ values: [String: String], isSmall: Bool) -> Letter.Block? {
        if lines == ["{code}"] { return values["code"].map { .code($0) } }
        if lines.count == 1, lines[0].hasSuffix(": {link}") {
            return values["link"].map { .link(url: $0, label: fill(String(lines[0].dropLast(8)), values).text) }
        }
        return filled(lines, values).map { isSmall ? .note($0) : .text($0) }
    }

    /// The lines whose placeholders have values; nil if there are none.
    private static func filled(_ lines: [String], _ values: [String: String]) -> String? {
        let filled = lines.map { fill($0, values) }.filter { $0.missing == nil }.map(\.text)
        return filled.isEmpty ? nil : filled.joined(separator: "\n")
    }

    /// The text with the values in place of their placeholders, and the first placeholder without a value.
    private static func fill(_ text: String, _ values: [String: String]) -> (text: String, missing: String?) {
        var out = ""
        var missing: String?
        var rest = text[...]
        while let open = rest.firstIndex(of: "{") {
            out += rest[..<open]
            let inner = rest[rest.index(after: open)...]
            let name = inner.prefix { $0.isASCII && $0.isLowercase }
            // Braces of style sheets enclose more than a word.
            guard !name.isEmpty, inner[name.endIndex...].first == "}" else {
                out += "{"
                rest = inner
                continue
            }
            if let value = values[String(name)] { out += value } else { missing = missing ?? String(name) }
            rest = inner[inner.index(after: name.endIndex)...]
        }
        return (out + rest, missing)
    }

    private static func trimmed(_ line: Substring) -> String {
        var line = line
        while line.last == " " || line.last == "\t" { line.removeLast() }
        return String(line)
    }
}
