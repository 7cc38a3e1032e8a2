/// The texts that the gateway brings.
enum BuiltInTemplates {
    static let texts: [String: [TemplateName: String]] = ["en": english, "de": german]

    private static let english: [TemplateName: String] = [
        .signUp: code(
            "Confirm your email for {app}", "Welcome! To confirm your email, enter this code:",
            "If you did not sign up, ignore this mail: nothing happens without the code."),
        .code: code(
            "Your code for {app}", "To confirm that this mail reaches you, enter this code:",
            "If you did not ask for it, ignore this mail: nothing happens without the code."),
        .emailCode: code(
            "Confirm your new email for {app}", "To use this address for your account from now on, enter this code:",
            "If you did not ask for it, ignore this mail: nothing changes without the code."),
        .recovery: code(
            "Sign in to {app}", "To sign in without your password, enter this code:",
            "If you did not ask for it, ignore this mail: your password is unchanged."),
        .sms: "{code} is your code for {app}. It is valid for {span}. Do not share it.",
        .reset: reset("Choose a new one here:\n\nChoose a new password: {link}"),
        .resetToken: reset("To choose a new one, enter this in the app:\n\n{code}"),
    ]

    private static func code(_ subject: String, _ invitation: String, _ otherwise: String) -> String {
        """
        Subject: \(subject)

        \(invitation)

        {code}

        The code is valid for {span} and for one use. Never share it, not even with someone who claims to be from {app}. \(otherwise)
        """
    }

    private static func reset(_ way: String) -> String {
        """
        Subject: A new password for {app}

        You, or someone who entered your address, asked to reset the password of your account.

        \(way)

        This is valid for {span} and for one use. If you did not ask for it, ignore this mail: your password is unchanged.
        """
    }

    private static let german: [TemplateName: String] = [
        .signUp: germanCode(
            "Bestätige deine E-Mail-Adresse für {app}", "Willkommen! Gib diesen Code ein, um deine E-Mail-Adresse zu bestätigen:",
            "Falls du dich nicht registriert hast, beachte diese Mail nicht: Ohne den Code geschieht nichts."),
        .code: germanCode(
            "Dein Code für {app}", "Gib diesen Code ein, um zu bestätigen, dass diese Mail dich erreicht:",
            "Falls du ihn nicht angefordert hast, beachte diese Mail nicht: Ohne den Code geschieht nichts."),
        .emailCode: germanCode(
            "Bestätige deine neue E-Mail-Adresse für {app}",
            "Gib diesen Code ein, um diese Adresse von jetzt an für dein Konto zu benutzen:",
            "Falls du ihn nicht angefordert hast, beachte diese Mail nicht: Ohne den Code ändert sich nichts."),
        .recovery: germanCode(
            "Anmeldung bei {app}", "Gib diesen Code ein, um dich ohne dein Passwort anzumelden:",
            "Falls du ihn nicht angefordert hast, beachte diese Mail nicht: Dein Passwort ist unverändert."),
        .sms: "{code} ist dein Code für {app}. Er gilt {span}. Gib ihn nicht weiter.",
        .reset: germanReset("Wähle hier ein neues:\n\nNeues Passwort wählen: {link}"),
        .resetToken: germanReset("Gib dies in der App ein, um ein neues zu wählen:\n\n{code}"),
    ]

    private static func germanCode(_ subject: String, _ invitation: String, _ otherwise: String) -> String {
        """
        Subject: \(subject)

        \(invitation)

        {code}

        Der Code gilt {span} und nur einmal. Gib ihn nicht weiter, auch nicht an jemanden, der sich als {app} ausgibt. \(otherwise)
        """
    }

    private static func germanReset(_ way: String) -> String {
        """
        Subject: Ein neues Passwort für {app}

        Du, oder jemand, der deine Adresse angegeben hat, möchte das Passwort deines Kontos zurücksetzen.

        \(way)

        Das gilt {span} und nur einmal. Falls du es nicht angefordert hast, beachte diese Mail nicht: Dein Passwort ist unverändert.
        """
    }

    /// A duration in words: `10 minutes`, rounded up; whole hours as `1 hour`.
    static func span(_ seconds: Int64, in language: String) -> String {
        let isHours = seconds % 3_600 == 0
        let count = isHours ? seconds / 3_600 : (seconds + 59) / 60
        return switch language {
        case "en": "\(count) \(isHours ? "hour" : "minute")\(count == 1 ? "" : "s")"
        case "de": "\(count) \(isHours ? "Stunde" : "Minute")\(count == 1 ? "" : "n")"
        default: "\(count) \(isHours ? "h" : "min")"
        }
    }
}
