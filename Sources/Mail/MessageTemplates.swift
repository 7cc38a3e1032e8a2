internal import Accounts
internal import Wire

/// Renders messages by the plan in force.
struct MessageTemplates: Sendable, Equatable {
    let plan: MailPlan

    /// Renders a message; `id` is unique.
    func render(_ message: Message, id: String) -> OutgoingMessage {
        switch message.content {
        case .code(let code, let purpose, let seconds):
            outgoing(
                message, id, "\(purpose.rawValue) code", name(purpose, message.recipient), values(seconds, ["code": code]),
                secret: .code(code), usefulSeconds: seconds)
        case .passwordReset(let token, let seconds):
            if let link = plan.resetURL.map({ Self.link($0, token) }) {
                outgoing(
                    message, id, "password reset", .reset, values(seconds, ["link": link]), secret: .link(link), usefulSeconds: seconds)
            } else {
                outgoing(
                    message, id, "password reset", .resetToken, values(seconds, ["code": token]), secret: .code(token),
                    usefulSeconds: seconds)
            }
        case .notice(let notice, let wayBack): outgoing(message, notice, wayBack: wayBack)
        }
    }

    /// How long one gateway tries to send a notice, in seconds: any may try again when its claim is over.
    private static let noticeSeconds = OutgoingSchedule.notices.pauses[0] - 60

    private func outgoing(_ message: Message, _ notice: Notice, wayBack token: String?) -> OutgoingMessage {
        let name = if case .phone = message.recipient { TemplateName.smsNotice } else { TemplateName.notice(notice.kind) }
        let link = token.flatMap { token in plan.wayBackURL.map { Self.link($0, token) } }
        // A provider's name is stored in lower case.
        let detail = notice.detail.map { name.detail == .provider ? $0.prefix(1).uppercased() + $0.dropFirst() : $0 }
        let values = [
            "app": plan.signature, name.detail.rawValue: detail, "address": notice.address?.text, "time": Self.minute(notice.at),
            "link": link,
            "until": link == nil ? nil : Self.minute(notice.until),
        ].compactMapValues(\.self)
        var outgoing = outgoing(
            message, notice.id.text, "\(notice.kind.rawValue) notice", name, { _ in values }, secret: link.map { .link($0) } ?? .none,
            usefulSeconds: Self.noticeSeconds)
        outgoing.notice = notice.id
        return outgoing
    }

    /// A time like `2027-01-15 08:00 UTC`.
    private static func minute(_ time: WallTime) -> String {
        ISO8601.text(time).prefix(16).replacing("T", with: " ") + " UTC"
    }

    private func name(_ purpose: CodePurpose, _ recipient: Recipient) -> TemplateName {
        if case .phone = recipient { return .sms }
        return switch purpose {
        case .signUp: .signUp
        case .email, .sms, .phoneChange: .code
        case .emailChange, .link: .emailCode
        case .recovery: .recovery
        }
    }

    /// The values of placeholders in a language.
    private typealias Values = (_ language: String) -> [String: String]

    private func values(_ seconds: Int64, _ others: [String: String]) -> Values {
        { language in
            let own = [
                "app": plan.signature, "minutes": "\((seconds + 59) / 60)", "span": BuiltInTemplates.span(seconds, in: language),
            ]
            return own.merging(others) { _, other in other }
        }
    }

    private func outgoing(
        _ message: Message, _ id: String, _ kind: String, _ name: TemplateName, _ values: Values, secret: MessageSecret,
        usefulSeconds: Int64
    ) -> OutgoingMessage {
        let (template, language) = plan.templates.template(name, for: message.languages)
        let values = values(language)
        let body: OutgoingMessage.Body =
            name.isSMS
            ? .sms(template.text(values) + (values["code"].map(autofill) ?? ""))
            : .mail(template.letter(values, language: language, signature: plan.signature))
        return OutgoingMessage(
            id: id, kind: kind, recipient: message.recipient.text, body: body, secret: secret, usefulSeconds: usefulSeconds)
    }

    /// The last line of an SMS, by which phones fill in its code: the domain and the code first, as iOS and browsers demand, and the hash of
    /// the app last, where Android looks for it.
    private func autofill(_ code: String) -> String {
        let parts = [plan.smsDomain.map { "@\($0) #\(code)" }, plan.smsAppHash].compactMap { $0 }
        return parts.isEmpty ? "" : "\n\n" + parts.joined(separator: " ")
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
}
