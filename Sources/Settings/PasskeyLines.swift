internal import Credentials
internal import Gate
internal import Wire

// The rows of the settings.
extension Setting {
    static let passkeys = [passkey, iosApps, iosLinks, androidApps]

    package static let passkey = Setting(
        "TOLLGATE_PASSKEY", .line(\.passkey),
        "The domain of passkeys: `rp-id=example.org rp-name=Example origins=https://app.example.org`. Its own page and the apps of the next settings count as origins, too."
    )
    package static let iosApps = Setting(
        "TOLLGATE_IOS_APPS", .words(\.iosApps, TypedText.iosApp).emptyIsNone,
        "The iOS apps that belong to [the domain](apps.md#apps-of-a-domain), each as `TEAM.bundle`, from which `/.well-known/apple-app-site-association` is made."
    )
    package static let iosLinks = Setting(
        "TOLLGATE_IOS_LINKS", .words(\.iosLinks, TypedText.iosLink).emptyIsNone,
        "The paths of the domain that open in these apps, such as `/invite/*`: universal links.")
    package static let androidApps = Setting(
        "TOLLGATE_ANDROID_APPS", .androidApps.emptyIsNone,
        "The Android apps that belong to the domain, each as `package=P sha256=AA:BB…`, with the fingerprint of each certificate that signs it, from which `/.well-known/assetlinks.json` is made."
    )
}

/// `TOLLGATE_PASSKEY`: the domain that passkeys are for.
package struct PasskeySettings: Hashable, Sendable {
    package var rpID = ""
    /// Shown by authenticators; `TOLLGATE_APP_NAME`, else the domain, unless the line has one.
    package var rpName = ""
    /// Further pages that may use them.
    package var origins: [String] = []
    package var origin = Origin.builtIn
}

/// An app of `TOLLGATE_ANDROID_APPS`.
package struct AndroidApp: Hashable, Sendable {
    package var package: String
    /// The SHA-256 of each certificate that signs it.
    package var fingerprints: [[UInt8]] = []
}

extension Configuration {
    /// The origins from which passkeys count: the page of the domain, the account page where it is at the domain or below, those of the line,
    /// and Android apps by their certificates.
    package var passkeyOrigins: Set<String> {
        guard let passkey else { return [] }
        let apps = androidApps.flatMap(\.fingerprints).map { "android:apk-key-hash:" + Base64URL.encode($0.rawBytes) }
        return Set(
            ["https://\(passkey.rpID)"] + passkey.origins + apps
                + (passkey.covers(self.publicURL) ? [OriginPattern.origin(ofURL: self.publicURL)].compactMap(\.self) : []))
    }

}

extension PasskeySettings: OptionTarget {
    package static let family = Setting.passkey
    package var lineName: String { "passkey" }
    package static let bare = Self()

    package static let options = table {
        LineOption("rp-id", \.rpID, .plain(rpID), values: "example.org", "the domain; passkeys are lost when it changes")
        LineOption(
            "rp-name", \.rpName, .text, values: "Example",
            "the name that authenticators show, without blanks; by default `TOLLGATE_APP_NAME`, else the domain")
        LineOption(
            "origins", list: \.origins, "https://app.example.org", "further pages that may use them, at the domain or below",
            TypedText.origin)
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("rp-id=example.org rp-name=Example")
        line.read(into: &self)
        line.require("rp-id", "rp-id=example.org, the domain of the app")
        for page in origins where !rpID.isEmpty {
            if !covers(page) {
                line.fault("origins= names \(quoted(page)), which browsers refuse for \(rpID), write pages at \(rpID) or below")
            }
        }
    }

    /// Whether browsers let a page at this address use the passkeys.
    fileprivate func covers(_ page: String) -> Bool {
        let parts = page.split(separator: "/", maxSplits: 2)
        guard parts.count > 1, let host = parts[1].split(separator: ":").first, page.hasPrefix("https://") || host == "localhost" else {
            return false
        }
        return host == rpID || host.hasSuffix("." + rpID)
    }

    private static func rpID(_ text: String) throws(ParseError) -> String {
        let name = try TypedText.hostName(text)
        guard name == "localhost" || name.contains("."), IPAddress(parsing: name) == nil, name == text else {
            throw ParseError("is no domain of passkeys, write the name of a site in lower case, like example.org")
        }
        return name
    }
}

extension TypedText {
    /// The origin of a page as browsers write it (RFC 6454 §6.2); plain HTTP only on `localhost`.
    static func origin(_ text: String) throws(ParseError) -> String {
        let url = try webURL(text)
        let (isTLS, authority) = (url.hasPrefix("https://"), url.drop { $0 != "/" }.dropFirst(2).prefix { $0 != "/" })
        let place = try HostAndPort(String(authority), defaultPort: isTLS ? 443 : 80)
        let plain = (isTLS ? "https://" : "http://") + place.host
        guard url == plain || url == "\(plain):\(place.port)" && place.port != (isTLS ? 443 : 80), isTLS || place.host == "localhost" else {
            throw ParseError("is no origin of a page, write one like https://app.example.org, without a path")
        }
        return url
    }

    /// An app's id: the ten characters of its team, and its bundle's id.
    static func iosApp(_ text: String) throws(ParseError) -> String {
        let (team, bundle) = (text.utf8.prefix { $0 != UInt8(ascii: ".") }, text.utf8.drop { $0 != UInt8(ascii: ".") }.dropFirst())
        let isTeam = team.count == 10 && team.allSatisfy { $0.isASCIIDigit || 65...90 ~= $0 }
        guard isTeam, !bundle.isEmpty, bundle.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || "-.".utf8.contains($0) }) else {
            throw ParseError("is no iOS app, write TEAM.BUNDLE like ABCDE12345.org.example.app")
        }
        return text
    }

    static func iosLink(_ text: String) throws(ParseError) -> String {
        guard text.hasPrefix("/") || text == "*", text.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
            throw ParseError("is no path of links, write one like /invite/*")
        }
        return text
    }

    fileprivate static func fingerprint(_ text: String) throws(ParseError) -> [UInt8] {
        let bytes = text.split(separator: ":", omittingEmptySubsequences: false).map { $0.utf8.count == 2 ? UInt8($0, radix: 16) : nil }
        guard bytes.count == 32, !bytes.contains(nil) else {
            throw ParseError("is no SHA-256 fingerprint, write the 32 bytes that keytool and Play Console show, like AA:BB:…")
        }
        return bytes.compactMap(\.self)
    }
}

extension SettingReader {
    /// Apps, each from its `package=` to the next.
    fileprivate static let androidApps = SettingReader(\.androidApps) { reader, setting in
        var apps: [AndroidApp] = []
        for word in reader.words(setting) {
            if word.hasPrefix("package="), word.utf8.count > 8 {
                apps.append(AndroidApp(package: String(word.dropFirst(8))))
            } else if word.hasPrefix("sha256="), !apps.isEmpty {
                guard let bytes = reader.parse(setting, String(word.dropFirst(7)), TypedText.fingerprint) else { return nil }
                apps[apps.count - 1].fingerprints.append(bytes)
            } else {
                reader.fault(setting, "\(quoted(word)) does not belong here, write package=org.example.app sha256=AA:BB:… for each app")
            }
        }
        for app in apps where app.fingerprints.isEmpty { reader.fault(setting, "has no sha256= behind package=\(app.package), add it") }
        return apps
    }
}

extension ConfigurationReader {
    /// Gives passkeys their name, and reports links that no app opens.
    mutating func checkPasskeys() {
        let name = configuration.appName
        if let passkey = configuration.passkey, passkey.rpName.isEmpty {
            configuration.passkey?.rpName = name.isEmpty ? passkey.rpID : name
        }
        if configuration.passkey?.rpID.isEmpty == false, configuration.account == nil {
            warn(.passkey, "has no endpoints, set \(Setting.account.name) to a path like /account")
        }
        if !configuration.iosLinks.isEmpty, configuration.iosApps.isEmpty {
            fault(.iosLinks, "is used by no app, set \(Setting.iosApps.name)")
        }
    }
}
