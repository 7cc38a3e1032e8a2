internal import Credentials
internal import Gate
internal import Wire

// The rows of the settings.
extension Setting {
    static let certificates = [
        acme, acmeNames, acmeEmail, plain(\.acmeChallenge), acmeDNS, acmeProfile, acmeChain, acmeBinding, acmeCA, acmeListen,
    ]

    package static let acme = Setting(
        "TOLLGATE_ACME", .value(ifSet: \.acmeDirectory, .plain(TypedText.acmeDirectory)), restart: true,
        "The authority that issues [certificates](certificates.md) for the TLS addresses: `letsencrypt`, `letsencrypt-staging`, or the URL of an ACME directory. They are ordered, renewed and given to all gateways of the database."
    )
    package static let acmeNames = Setting(
        "TOLLGATE_ACME_NAMES", .words(\.acmeNames, allowingCommas: true, TypedText.certificateName),
        shown: "the hosts of `TOLLGATE_PUBLIC_URL` and of routes",
        "The names that certificates are ordered for, one certificate each: hosts, `*.example.org` with the challenge `dns`, and addresses."
    )
    package static let acmeEmail = Setting(
        "TOLLGATE_ACME_EMAIL", .value(ifSet: \.acmeEmail, .plain(TypedText.acmeEmail)), "The address that the authority may write to.")
    package static let acmeDNS = Setting(
        "TOLLGATE_ACME_DNS", .value(ifSet: \.acmeDNS, AcmeDNSDeclaration.form),
        "Where the challenge `dns` puts its records: `rfc2136://KEYNAME:SECRET_FILE@HOST:PORT/ZONE`, a DNS server that takes updates signed by this key (TSIG with HMAC-SHA-256; `%2F` for a slash in the file), or `exec:FILE`, a program that is called with `present` or `cleanup`, the name and the text of the TXT record."
    )
    package static let acmeProfile = Setting(
        "TOLLGATE_ACME_PROFILE", .value(ifSet: \.acmeProfile, .plain(TypedText.name)),
        "The authority's profile of certificates, such as `shortlived`, which addresses need at Let's Encrypt.")
    package static let acmeChain = Setting(
        "TOLLGATE_ACME_CHAIN", .value(ifSet: \.acmeChain, .text),
        "The common name of the root that the chain shall end at, where the authority offers several.")
    package static let acmeBinding = Setting(
        "TOLLGATE_ACME_EAB", .line(\.acmeBinding),
        "External account binding, which some authorities want: `key-id=ID key-file=FILE`, the file with the MAC key in base64url.")
    package static let acmeCA = Setting(
        "TOLLGATE_ACME_CA", .oneFile(\.acmeAuthority),
        "PEM file of the CAs of the authority's own server, in place of the system's: for authorities of your own.")
    package static let acmeListen = Setting(
        "TOLLGATE_ACME_HTTP_LISTEN", .listeners(\.acmeListeners, allowing: [.proxy]), restart: true,
        "Further plain addresses for the challenge `http`, for tests behind other ports; they serve like those of `TOLLGATE_LISTEN`.")
}

/// How a certificate authority has the holder of a name prove that it is his (`TOLLGATE_ACME_CHALLENGE`).
package enum AcmeChallengeChoice: String, CaseIterable, Sendable {
    case tlsALPN = "tls-alpn"
    case http, dns
}

/// `TOLLGATE_ACME_EAB`: the account of another system of the certificate authority.
package struct AcmeBindingDeclaration: Hashable, Sendable {
    package var keyID = ""
    package var key: NamedFile?
    package var origin = Origin.builtIn

    /// The MAC key, which the file has in base64url; nil for another text.
    package var macKey: [UInt8]? { key.flatMap { Base64URL.decode($0.bytes.rawBytes) } }
}

extension AcmeBindingDeclaration: OptionTarget {
    package static let family = Setting.acmeBinding
    package var lineName: String { "acme-eab" }
    package static let bare = Self()

    package static let options = table {
        LineOption("key-id", \.keyID, .text, values: "an id", "the id of the key, as the authority gives it")
        LineOption("key-file", ifSet: \.key, .file, "a file", "the MAC key in base64url, as the authority gives it")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("key-id=ID key-file=FILE")
        line.read(into: &self)
        line.require("key-id", "key-id=ID, as the authority gives it")
        line.require("key-file", "key-file=FILE, the MAC key that the authority gives")
        if key != nil, macKey == nil || macKey == [] {
            line.fault("key-file= is no base64url, put the MAC key there as the authority gives it")
        }
    }
}

/// Where the records of `dns` challenges are put (`TOLLGATE_ACME_DNS`).
package enum AcmeDNSDeclaration: Hashable, Sendable {
    case server(keyName: String, secret: NamedFile, host: String, port: UInt16, zone: String)
    case program(String)

    static let form = OptionForm<Self>({ text, context throws(ParseError) in try Self(parsing: text, context) }) { declaration, _ in
        switch declaration {
        case .server(let keyName, let secret, let host, let port, let zone):
            let file = secret.path.utf8.contains(UInt8(ascii: "/")) ? PercentEncoding.encode(secret.path) : secret.path
            return OptionValue("rfc2136://\(keyName):\(file)@\(host):\(port)/\(zone)")
        case .program(let path): return OptionValue("exec:\(path)")
        }
    }

    private static let right = "write rfc2136://KEYNAME:SECRET_FILE@HOST:PORT/ZONE, with %2F for a slash in the file, or exec:FILE"

    private init(parsing text: String, _ context: OptionContext) throws(ParseError) {
        if text.hasPrefix("exec:") {
            self = .program(context.origin.path(String(text.dropFirst(5))))
            return
        }
        let rest = text.hasPrefix("rfc2136://") ? text.dropFirst("rfc2136://".count) : ""
        let parts = rest.split(separator: "@", omittingEmptySubsequences: false)
        let user = (parts.first ?? "").split(separator: ":", omittingEmptySubsequences: false)
        let place = (parts.last ?? "").split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, user.count == 2, place.count == 2,
            let file = PercentEncoding.decode(user[1].utf8).map({ String(decoding: $0, as: UTF8.self) }), !file.isEmpty
        else { throw ParseError("is no place of DNS records, \(Self.right)") }
        let (host, port) = Self.hostAndPort(place[0])
        guard !host.isEmpty, let port else { throw ParseError("has no host or no port, \(Self.right)") }
        let secret = NamedFile(path: context.origin.path(file), bytes: try SecretFile.read(context.origin.path(file), context.sources))
        guard let key = Base64.decode(secret.bytes.rawBytes, isPadded: true), !key.isEmpty else {
            throw ParseError("names a file that holds no base64, put the secret of the key there as tsig-keygen prints it")
        }
        self = .server(
            keyName: try TypedText.hostName(String(user[0])), secret: NamedFile(path: secret.path, bytes: key), host: host, port: port,
            zone: try TypedText.hostName(String(place[1])))
    }

    /// Port 53 if none is given; nil for one that is none.
    private static func hostAndPort(_ text: Substring) -> (String, UInt16?) {
        let isBracketed = text.hasPrefix("[")
        let end = isBracketed ? text.firstIndex(of: "]").map { text.index(after: $0) } : text.firstIndex(of: ":")
        guard let end else { return (String(text), isBracketed ? nil : 53) }
        let port = text[end...]
        return (
            String(text[..<end]), port.isEmpty ? 53 : port.hasPrefix(":") ? UInt16(port.dropFirst()).flatMap { $0 == 0 ? nil : $0 } : nil
        )
    }
}

extension TypedText {
    /// The directory of a certificate authority: one that is known by name, or its URL.
    static func acmeDirectory(_ text: String) throws(ParseError) -> String {
        if text == "letsencrypt" { return "https://acme-v02.api.letsencrypt.org/directory" }
        if text == "letsencrypt-staging" { return "https://acme-staging-v02.api.letsencrypt.org/directory" }
        guard text.hasPrefix("https://") else {
            throw ParseError("is no certificate authority, write letsencrypt, letsencrypt-staging or the https URL of an ACME directory")
        }
        return try webURL(text)
    }

    /// An address for `mailto:`.
    static func acmeEmail(_ text: String) throws(ParseError) -> String {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        let isPlain = text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !",?&#%<>\"\\".utf8.contains($0) }
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty, isPlain else {
            throw ParseError("is no mail address, write one like operator@example.org")
        }
        return text
    }

    /// A name that a certificate may be for: a host, `*.` and a host, or an address.
    static func certificateName(_ text: String) throws(ParseError) -> String {
        if let address = IPAddress(parsing: text) { return address.text }
        let host = text.hasPrefix("*.") ? String(text.dropFirst(2)) : text
        let name = try hostName(host)
        guard name.utf8.contains(UInt8(ascii: ".")), !name.utf8.contains(UInt8(ascii: "_")) else {
            throw ParseError(
                "is no name that a certificate authority issues for, write one like api.example.org, *.example.org or an address")
        }
        return text.hasPrefix("*.") ? "*." + name : name
    }
}

extension Configuration {
    /// The names that certificates are ordered for: those of the setting, or the hosts of the public URL and of routes, but for those that a
    /// certificate of a file has.
    package var certificateNames: [String] {
        if !acmeNames.isEmpty { return acmeNames }
        let authority = self.publicURL.split(separator: "/", omittingEmptySubsequences: false).dropFirst(2).first ?? ""
        let host = authority.split(separator: ":").first.map(String.init) ?? ""
        var names: [String] = []
        for host in [host] + routes.compactMap(\.rule.host) {
            // A host without a public name, like localhost, has no certificate.
            guard let name = try? TypedText.certificateName(host), IPAddress(parsing: name) == nil, !names.contains(name) else { continue }
            let parent = name.drop { $0 != "." }
            guard !fileNames.contains(name), !fileNames.contains("*\(parent)") else { continue }
            if !name.hasPrefix("*.") { names.append(name) }
        }
        return names
    }
}

extension ConfigurationReader {
    /// Requires what the challenge needs, and refuses names that it cannot prove.
    mutating func checkAcme() {
        guard configuration.acmeDirectory != nil else { return warnOfUnusedAcme() }
        if configuration.tlsListeners.isEmpty { fault(.acme, "has no address to serve the certificates on, set TOLLGATE_LISTEN_TLS") }
        let names = configuration.certificateNames
        if names.isEmpty { fault(.acme, "has no name to order a certificate for, set \(Setting.acmeNames.name)") }
        let choice = configuration.acmeChallenge
        if choice == .http, configuration.listeners.isEmpty, configuration.acmeListeners.isEmpty {
            fault(.acme, "has no plain address for the challenge http, set TOLLGATE_LISTEN")
        }
        if choice == .dns, configuration.acmeDNS == nil {
            fault(.acme, "has no place for the records of the challenge dns, set \(Setting.acmeDNS.name)")
        }
        for name in names {
            if name.hasPrefix("*."), choice != .dns {
                fault(.acmeNames, "\(name) can be proved by the challenge dns alone, set \(Setting.plain(\.acmeChallenge).name)=dns")
            } else if choice == .dns, IPAddress(parsing: name) != nil {
                fault(.acmeNames, "\(name) is an address, which has no records for the challenge dns: use tls-alpn or http")
            }
        }
    }

    /// The addresses of `TOLLGATE_ACME_HTTP_LISTEN` serve without orders too.
    private mutating func warnOfUnusedAcme() {
        guard text(.acme).allSatisfy(\.isWhitespace) else { return }
        for setting in Setting.certificates where setting.name != Setting.acme.name && setting.name != Setting.acmeListen.name {
            let isSet = configuration.origin(of: setting) != .builtIn && !text(setting).allSatisfy(\.isWhitespace)
            guard isSet, !findings.faults.contains(where: { $0.name == setting.name }) else { continue }
            warn(setting, "has no effect, as no certificates are ordered: set \(Setting.acme.name), or remove it")
        }
    }
}
