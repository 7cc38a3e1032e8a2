package import Credentials
internal import Wire

/// A token of the admin API with scopes, as a `TOLLGATE_ADMIN_TOKEN_…` line declares it.
package struct AdminTokenDeclaration: Hashable, Sendable {
    package var token: ScopedToken
    package var origin: Origin
}

extension LineOption {
    package static let adminToken: [LineOption] = [
        LineOption("token-file", "a file", "the token, \(ScopedToken.leastBytes) visible ASCII characters or more"),
        LineOption(
            "scope", AdminScope.allCases.map(\.rawValue).joined(separator: ","),
            "what it may do, separated by commas; anything else is 403"),
    ]
}

/// Parser of `TOLLGATE_ADMIN_TOKEN_<NAME>`.
enum AdminTokenLine {
    /// nil if the line is empty or has no usable token.
    static func parse(_ entry: EnvEntry, name: String, _ sources: SettingSources) -> (AdminTokenDeclaration?, Findings) {
        if entry.value.isEmpty { return (nil, Findings()) }
        let known = LineOption.adminToken.map { $0.key + "=" }
        let words = entry.value.split(whereSeparator: { $0 == " " || $0 == "\t" })
        guard words.allSatisfy({ word in known.contains { word.hasPrefix($0) } }) else {
            // The text is not quoted: it may be the token.
            var findings = Findings()
            findings.fault(Finding(entry.origin, entry.name, "has a part that is no option, write token-file=FILE scope=SCOPE,SCOPE"))
            return (nil, findings)
        }
        var line = OptionLine(entry, knows: LineOption.adminToken)
        if !line.has("scope"), line.findings.faults.isEmpty {
            line.fault("has no scope, write scope= with one of \(scopes.joined(separator: ", ")), or several separated by commas")
        }
        let named = line.list("scope") { text throws(ParseError) in try TypedText.choice(text, scopes) } ?? []
        let bytes = token(&line, sources)
        guard let bytes else { return (nil, line.findings) }
        let token = ScopedToken(name: name, bytes: bytes, scopes: Set(named.compactMap(AdminScope.init(rawValue:))))
        return (AdminTokenDeclaration(token: token, origin: entry.origin), line.findings)
    }

    private static let scopes = AdminScope.allCases.map(\.rawValue)

    private static func token(_ line: inout OptionLine, _ sources: SettingSources) -> [UInt8]? {
        guard let path = line.text("token-file") else {
            if line.findings.faults.isEmpty { line.fault("has no token, write token-file= with the path of a file that holds it") }
            return nil
        }
        return line.parse("token-file=\(path)", line.entry.origin.path(path)) { file throws(ParseError) in
            let bytes = try SecretFile.read(file, sources)
            guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
                throw ParseError("holds characters that a bearer token must not, use visible ASCII characters without spaces")
            }
            guard bytes.count >= ScopedToken.leastBytes else {
                throw ParseError("holds a token that is easy to guess, use \(ScopedToken.leastBytes) characters or more")
            }
            return bytes
        }
    }
}
