internal import Accounts

/// The templates of all mails and SMS.
struct MessageTemplates: Sendable, Equatable {
    /// The sender's name: `Example`.
    let signature: String
    /// The page of reset links; nil: the mail contains the bare token.
    let resetURL: String?

    /// Renders a message; `id` is unique.
    func render(_ message: Message, id: String) -> OutgoingMessage {
        switch message.content {
        case .code(let code, let purpose, let seconds):
            OutgoingMessage(
                id: id, kind: "\(purpose.rawValue) code", recipient: message.recipient.address,
                body: body(code, purpose, seconds, message.recipient), secret: .code(code), usefulSeconds: seconds)
        case .passwordReset(let token, let seconds): reset(token, seconds, message.recipient, id)
        }
    }

    // MARK: codes

    private func body(_ code: String, _ purpose: CodePurpose, _ seconds: Int64, _ recipient: Recipient) -> OutgoingMessage.Body {
        switch recipient {
        case .phone: .sms("\(code) is your code for \(signature). It is valid for \(Self.span(seconds)). Do not share it.")
        case .email: .mail(letter(code, words(purpose), seconds))
        }
    }

    private struct CodeWords {
        let subject: String
        let invitation: String
        /// For a reader who did not ask for the code.
        let otherwise: String
    }

    private func words(_ purpose: CodePurpose) -> CodeWords {
        switch purpose {
        case .signUp:
            CodeWords(
                subject: "Confirm your email for \(signature)", invitation: "Welcome! To confirm your email, enter this code:",
                otherwise: "If you did not sign up, ignore this mail: nothing happens without the code.")
        case .email, .sms, .phoneChange:
            CodeWords(
                subject: "Your code for \(signature)", invitation: "To confirm that this mail reaches you, enter this code:",
                otherwise: "If you did not ask for it, ignore this mail: nothing happens without the code.")
        case .emailChange, .link:
            CodeWords(
                subject: "Confirm your new email for \(signature)",
                invitation: "To use this address for your account from now on, enter this code:",
                otherwise: "If you did not ask for it, ignore this mail: nothing changes without the code.")
        case .recovery:
            CodeWords(
                subject: "Sign in to \(signature)", invitation: "To sign in without your password, enter this code:",
                otherwise: "If you did not ask for it, ignore this mail: your password is unchanged.")
        }
    }

    private func letter(_ code: String, _ words: CodeWords, _ seconds: Int64) -> Letter {
        let note =
            "The code is valid for \(Self.span(seconds)) and for one use. Never share it, not even with someone who claims to be from \(signature). \(words.otherwise)"
        return Letter(
            subject: words.subject, blocks: [.text(words.invitation), .code(code), .note(note)], signature: signature)
    }

    // MARK: reset

    private func reset(_ token: String, _ seconds: Int64, _ recipient: Recipient, _ id: String) -> OutgoingMessage {
        let link = resetURL.map { Self.link($0, token) }
        let way: [Letter.Block] =
            link.map { [.text("Choose a new one here:"), .link(url: $0, label: "Choose a new password")] }
            ?? [.text("To choose a new one, enter this in the app:"), .code(token)]
        let note =
            "This is valid for \(Self.span(seconds)) and for one use. If you did not ask for it, ignore this mail: your password is unchanged."
        let letter = Letter(
            subject: "A new password for \(signature)",
            blocks: [.text("You, or someone who entered your address, asked to reset the password of your account.")] + way + [.note(note)],
            signature: signature)
        return OutgoingMessage(
            id: id, kind: "password reset", recipient: recipient.address, body: .mail(letter),
            secret: link.map { .link($0) } ?? .code(token), usefulSeconds: seconds)
    }

    /// `base` with the token in its query: as the value of an empty `token=` there, or behind it.
    static func link(_ base: String, _ token: String) -> String {
        let end = base.firstIndex(of: "#") ?? base.endIndex
        let (address, fragment) = (base[..<end], base[end...])
        if let mark = address.firstIndex(of: "?") {
            let parameters = address[address.index(after: mark)...].split(separator: "&", omittingEmptySubsequences: false)
            if let empty = parameters.firstIndex(of: "token=") {
                let filled = parameters.enumerated().map { $0.offset == empty ? "token=\(token)" : String($0.element) }
                return "\(address[...mark])\(filled.joined(separator: "&"))\(fragment)"
            }
        }
        let mark = !address.contains("?") ? "?" : address.hasSuffix("?") || address.hasSuffix("&") ? "" : "&"
        return "\(address)\(mark)token=\(token)\(fragment)"
    }

    /// A duration in words: `10 minutes`, rounded up; whole hours as `1 hour`.
    static func span(_ seconds: Int64) -> String {
        let (count, unit) = seconds % 3_600 == 0 ? (seconds / 3_600, "hour") : ((seconds + 59) / 60, "minute")
        return "\(count) \(unit)\(count == 1 ? "" : "s")"
    }
}

extension Recipient {
    fileprivate var address: String {
        switch self {
        case .email(let email): email.text
        case .phone(let phone): phone.text
        }
    }
}
