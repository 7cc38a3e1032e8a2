internal import Contracts
internal import Mail
internal import Settings
internal import Wire

extension MailPlan {
    /// The mail server of `SMTP_URL`, which needs a sender, and the webhook for text messages.
    init(_ settings: Configuration, _ findings: inout Findings) {
        let server = Self.server(settings, &findings)
        let from = Self.sender(settings, &findings)
        if server != nil, settings.mailFrom.isEmpty {
            let message = "has no sender beside it, set TOLLGATE_MAIL_FROM like Example <no-reply@example.org>"
            findings.fault(Finding(settings.origin(of: .smtpURL), Setting.smtpURL.name, message))
        }
        let route = server.flatMap { server in from.map { MailRoute(server: server, from: $0) } }
        self.init(
            mail: route, sender: settings.appName.isEmpty ? from?.name : settings.appName, smsURL: settings.smsURL,
            resetURL: settings.resetURL, publicURL: settings.publicURL)
        (smsDomain, smsAppHash) = (settings.smsDomain, settings.smsAppHash)
        if settings.notices.contains("email") {
            if let account = settings.account {
                let base = settings.publicURL.hasSuffix("/") ? String(settings.publicURL.dropLast()) : settings.publicURL
                wayBackURL = base + account.base + WayBackPage.path
            } else {
                let message = "tells of a new email and gives no way back, set TOLLGATE_ACCOUNT to a path like /account"
                findings.warn(Finding(settings.origin(of: .notices), Setting.notices.name, message))
            }
        }
        if let folder = settings.mailTemplates { templates = Self.templates(folder, settings.origin(of: .mailTemplates), &findings) }
    }

    private static func templates(_ folder: String, _ origin: Origin, _ findings: inout Findings) -> TemplateSet {
        var found = TemplateSet.Findings()
        let templates = TemplateSet.read(folder, &found)
        for fault in found.faults { findings.fault(Finding(origin, Setting.mailTemplates.name, fault)) }
        for warning in found.warnings { findings.warn(Finding(origin, Setting.mailTemplates.name, warning)) }
        return templates
    }

    /// No fault quotes the URL, which may hold a password.
    private static func server(_ settings: Configuration, _ findings: inout Findings) -> MailServer? {
        guard let url = settings.smtpURL else { return nil }
        do throws(ParseError) {
            return try MailServer(url, path: settings.origin(of: .smtpURL).path)
        } catch {
            findings.fault(Finding(settings.origin(of: .smtpURL), Setting.smtpURL.name, error.text))
            return nil
        }
    }

    private static func sender(_ settings: Configuration, _ findings: inout Findings) -> Sender? {
        guard !settings.mailFrom.isEmpty else { return nil }
        do throws(ParseError) {
            return try Sender(settings.mailFrom)
        } catch {
            let message = "\(quoted(settings.mailFrom)) \(error.text)"
            findings.fault(Finding(settings.origin(of: Setting.plain(\.mailFrom)), Setting.plain(\.mailFrom).name, message))
            return nil
        }
    }
}
