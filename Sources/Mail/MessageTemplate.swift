internal import Accounts
internal import Wire

/// The messages, each with a template for every language: `NAME.txt` and, for a mail, `NAME.html`.
enum TemplateName: Hashable, CaseIterable, Sendable {
    case signUp, code, emailCode, recovery, sms
    /// A link to choose a new password.
    case reset
    /// A token for that, where there is no page of reset links.
    case resetToken
    case notice(Notice.Kind)
    /// A notice to a phone, whatever has changed.
    case smsNotice

    static let allCases = [signUp, code, emailCode, recovery, sms, reset, resetToken] + Notice.Kind.allCases.map(notice) + [smsNotice]

    /// The name of its files.
    var file: String {
        switch self {
        case .signUp: "sign-up"
        case .code: "code"
        case .emailCode: "email-code"
        case .recovery: "recovery"
        case .sms: "sms"
        case .reset: "reset"
        case .resetToken: "reset-token"
        case .notice(let kind): kind.rawValue
        case .smsNotice: "sms-notice"
        }
    }

    var isSMS: Bool { self == .sms || self == .smsNotice }

    /// The placeholder without which the message is of no use; nil if there is none.
    var demanded: String? {
        switch self {
        case .signUp, .code, .emailCode, .recovery, .sms, .resetToken: "code"
        case .reset: "link"
        case .notice, .smsNotice: nil
        }
    }

    /// The placeholder of a notice's detail.
    var detail: Notice.Detail { if case .notice(let kind) = self { kind.row.detail } else { .device } }

    /// The values of its placeholders in an example.
    var example: [String: String] {
        if let demanded { return ["app": "Example", "span": "10 minutes", "minutes": "10", demanded: "123456"] }
        var values = ["app": "Example", "device": "iPhone", "address": "192.0.2.7", "time": "2027-01-15 08:00 UTC"]
        values[detail.rawValue] = detail == .provider ? "google" : "iPhone"
        if self == .notice(.emailLeft) {
            (values["link"], values["until"]) = ("https://example.org/return?token=x", "2027-01-18 08:00 UTC")
        }
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
