internal import Accounts

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
        .notice(.newDevice): notice(
            "A new sign-in to {app}", "Your account was signed in on a device that it was not used on before.",
            "If that was you, there is nothing to do. If not, choose a new password: that ends all other sessions."),
        .notice(.deviceKeyRefused): notice(
            "A session of yours at {app} was used without its device",
            "A copy of the tokens of a session was used without the key of the device that the session belongs to. It was refused.",
            "If you just set up the app anew, there is nothing to do. If not, end the session in the app."),
        .notice(.passwordChanged): notice(
            "Your password for {app} was changed", "The password of your account was changed, and all other sessions have ended.",
            "If that was you, there is nothing to do. If not, ask for a new password at once."),
        .notice(.identityLinked): notice(
            "A new way to sign in to {app}", "Your account can be signed in to with a new provider: {provider}.",
            "If that was you, there is nothing to do. If not, remove it from your account, and choose a new password at once."),
        .notice(.identityUnlinked): notice(
            "A way to sign in to {app} was removed",
            "Your account can no longer be signed in to with {provider}, and all other sessions have ended.",
            "If that was you, there is nothing to do. If not, choose a new password at once."),
        .notice(.passkeyAdded): notice(
            "A new passkey for {app}", "Your account can be signed in to with a new passkey: {passkey}.",
            "If that was you, there is nothing to do. If not, remove it from your account at once, and end all other sessions."),
        .notice(.passkeyRemoved): notice(
            "A passkey for {app} was removed",
            "Your account can no longer be signed in to with the passkey {passkey}, and all other sessions have ended.",
            "If that was you, there is nothing to do. If not, sign in and look at what else was changed."),
        .notice(.passkeyCounterFell): notice(
            "A sign-in to {app} with a passkey that may have been copied",
            "Your account was signed in to with the passkey {passkey}. Its counter is lower than at an earlier sign-in.",
            "That happens if the passkey was copied, or restored on another device. If you did neither, remove it from your account."),
        .notice(.emailChanged): notice(
            "Your email for {app} was changed", "This is now the address of your account.",
            "It was confirmed by a code that was sent here."),
        .notice(.phoneChanged): notice(
            "Your phone number for {app} was changed", "The phone number of your account was changed.",
            "If that was you, there is nothing to do. If not, choose a new password at once: that ends all other sessions."),
        .notice(.factorAdded): notice(
            "A second factor for {app} was set up", "An authenticator app was set up as the second factor of your account.",
            "If that was you, there is nothing to do. If not, choose a new password at once, and ask for help."),
        .notice(.factorRemoved): notice(
            "The second factor for {app} was removed", "Your account no longer has a second factor.",
            "If that was you, there is nothing to do. If not, choose a new password at once, and ask for help."),
        .smsNotice: "{app}: what signs in to your account was changed ({time}). If that was not you, secure your account at once.",
        .notice(.emailLeft): notice(
            "Your email for {app} was changed", "The address of your account was changed. It is no longer this one.",
            """
            If that was you, there is nothing to do. If not, take the account back until {until}:

            Take the account back: {link}

            The link leads to a page with a button. It puts this address back, ends all sessions and removes the password.
            """),
    ]

    private static func code(_ subject: String, _ invitation: String, _ otherwise: String) -> String {
        """
        Subject: \(subject)

        \(invitation)

        {code}

        The code is valid for {span} and for one use. Never share it, not even with someone who claims to be from {app}. \(otherwise)
        """
    }

    private static func notice(_ subject: String, _ event: String, _ advice: String) -> String {
        """
        Subject: \(subject)

        \(event)

        Device: {device}
        Address: {address}
        Time: {time}

        \(advice)
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
        .notice(.newDevice): germanNotice(
            "Neue Anmeldung bei {app}", "Dein Konto wurde auf einem Gerät angemeldet, auf dem es bisher nicht benutzt wurde.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, wähle ein neues Passwort: Das beendet alle anderen Sitzungen."),
        .notice(.deviceKeyRefused): germanNotice(
            "Eine deiner Sitzungen bei {app} wurde ohne ihr Gerät benutzt",
            "Eine Kopie der Tokens einer Sitzung wurde ohne den Schlüssel ihres Geräts benutzt. Das wurde abgelehnt.",
            "Falls du die App gerade neu eingerichtet hast, ist nichts zu tun. Falls nicht, beende die Sitzung in der App."),
        .notice(.passwordChanged): germanNotice(
            "Dein Passwort für {app} wurde geändert",
            "Das Passwort deines Kontos wurde geändert, und alle anderen Sitzungen sind beendet.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, fordere sofort ein neues Passwort an."),
        .notice(.identityLinked): germanNotice(
            "Neue Anmeldemöglichkeit bei {app}", "Bei deinem Konto kann man sich jetzt auch mit {provider} anmelden.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, entferne das aus deinem Konto, und wähle sofort ein neues Passwort."),
        .notice(.identityUnlinked): germanNotice(
            "Eine Anmeldemöglichkeit bei {app} wurde entfernt",
            "Bei deinem Konto kann man sich nicht mehr mit {provider} anmelden, und alle anderen Sitzungen sind beendet.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, wähle sofort ein neues Passwort."),
        .notice(.passkeyAdded): germanNotice(
            "Neuer Passkey für {app}", "Bei deinem Konto kann man sich jetzt auch mit einem neuen Passkey anmelden: {passkey}.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, entferne ihn sofort aus deinem Konto, und beende alle anderen Sitzungen."),
        .notice(.passkeyRemoved): germanNotice(
            "Ein Passkey für {app} wurde entfernt",
            "Bei deinem Konto kann man sich nicht mehr mit dem Passkey {passkey} anmelden, und alle anderen Sitzungen sind beendet.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, melde dich an und sieh nach, was noch geändert wurde."),
        .notice(.passkeyCounterFell): germanNotice(
            "Anmeldung bei {app} mit einem vielleicht kopierten Passkey",
            "Dein Konto wurde mit dem Passkey {passkey} angemeldet. Sein Zähler ist niedriger als bei einer früheren Anmeldung.",
            "Das kommt vor, wenn der Passkey kopiert oder auf einem anderen Gerät wiederhergestellt wurde. Falls nicht, entferne ihn aus deinem Konto."
        ),
        .notice(.emailChanged): germanNotice(
            "Deine E-Mail-Adresse für {app} wurde geändert", "Dies ist jetzt die Adresse deines Kontos.",
            "Sie wurde durch einen Code bestätigt, der hierher geschickt wurde."),
        .notice(.phoneChanged): germanNotice(
            "Deine Telefonnummer für {app} wurde geändert", "Die Telefonnummer deines Kontos wurde geändert.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, wähle sofort ein neues Passwort: Das beendet alle anderen Sitzungen."),
        .notice(.factorAdded): germanNotice(
            "Ein zweiter Faktor für {app} wurde eingerichtet",
            "Eine Authenticator-App wurde als zweiter Faktor deines Kontos eingerichtet.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, wähle sofort ein neues Passwort, und bitte um Hilfe."),
        .notice(.factorRemoved): germanNotice(
            "Der zweite Faktor für {app} wurde entfernt", "Dein Konto hat keinen zweiten Faktor mehr.",
            "Falls du das warst, ist nichts zu tun. Falls nicht, wähle sofort ein neues Passwort, und bitte um Hilfe."),
        .smsNotice: "{app}: Die Anmeldung deines Kontos wurde geändert ({time}). Falls du das nicht warst, sichere dein Konto sofort.",
        .notice(.emailLeft): germanNotice(
            "Deine E-Mail-Adresse für {app} wurde geändert", "Die Adresse deines Kontos wurde geändert. Es ist nicht mehr diese.",
            """
            Falls du das warst, ist nichts zu tun. Falls nicht, hole das Konto bis {until} zurück:

            Konto zurückholen: {link}

            Der Link führt zu einer Seite mit einem Knopf. Er setzt diese Adresse wieder ein, beendet alle Sitzungen und entfernt das Passwort.
            """),
    ]

    private static func germanCode(_ subject: String, _ invitation: String, _ otherwise: String) -> String {
        """
        Subject: \(subject)

        \(invitation)

        {code}

        Der Code gilt {span} und nur einmal. Gib ihn nicht weiter, auch nicht an jemanden, der sich als {app} ausgibt. \(otherwise)
        """
    }

    private static func germanNotice(_ subject: String, _ event: String, _ advice: String) -> String {
        """
        Subject: \(subject)

        \(event)

        Gerät: {device}
        Adresse: {address}
        Zeit: {time}

        \(advice)
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
