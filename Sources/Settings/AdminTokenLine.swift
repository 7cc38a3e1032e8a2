package import Credentials
internal import Wire

/// A token of the admin API with scopes, as a `TOLLGATE_ADMIN_TOKEN_…` line declares it.
package struct AdminTokenDeclaration: Hashable, Sendable {
    package var token: ScopedToken
    package var origin: Origin
}

extension AdminTokenDeclaration: OptionTarget {
    package static let bare = Self(token: ScopedToken(name: "", bytes: [], scopes: []), origin: .builtIn)

    package static let options = table {
        LineOption("token-file", "a file", "the token, \(ScopedToken.leastBytes) visible ASCII characters or more") { line, declaration in
            guard let path = line.text("token-file") else { return }
            let sources = line.context.sources
            let bytes = line.parse("token-file=\(path)", line.entry.origin.path(path)) { file throws(ParseError) in
                try AdminTokenLine.token(SecretFile.read(file, sources))
            }
            if let bytes { declaration.token.bytes = bytes }
        } value: { _, _ in
            nil
        }
        LineOption(
            "scope", list: \.token.scopes, AdminScope.allCases.map(\.rawValue).joined(separator: ","),
            "what it may do, separated by commas; anything else is 403",
            part: { text throws(ParseError) in try TypedText.choice(text, AdminTokenLine.scopes) },
            join: { Set($0.compactMap(AdminScope.init(rawValue:))) }, show: { scopes in AdminScope.allCases.filter(scopes.contains).map(\.rawValue) })
    }
}

/// Parser of `TOLLGATE_ADMIN_TOKEN_<NAME>`.
enum AdminTokenLine {
    /// nil if the line is empty or has no usable token.
    static func parse(_ entry: EnvEntry, name: String, _ sources: SettingSources) -> (AdminTokenDeclaration?, Findings) {
        if entry.value.isEmpty { return (nil, Findings()) }
        let known = AdminTokenDeclaration.options.map { $0.key + "=" }
        let words = entry.value.split(whereSeparator: { $0 == " " || $0 == "\t" })
        guard words.allSatisfy({ word in known.contains { word.hasPrefix($0) } }) else {
            // The text is not quoted: it may be the token.
            var findings = Findings()
            findings.fault(Finding(entry.origin, entry.name, "has a part that is no option, write token-file=FILE scope=SCOPE,SCOPE"))
            return (nil, findings)
        }
        var line = OptionLine(entry, AdminTokenDeclaration.self, sources)
        if !line.has("scope"), line.findings.faults.isEmpty {
            line.fault("has no scope, write scope= with one of \(scopes.joined(separator: ", ")), or several separated by commas")
        }
        if !line.has("token-file"), line.findings.faults.isEmpty {
            line.fault("has no token, write token-file= with the path of a file that holds it")
        }
        var declaration = AdminTokenDeclaration(token: ScopedToken(name: name, bytes: [], scopes: []), origin: entry.origin)
        line.read(into: &declaration)
        return (declaration.token.bytes.isEmpty ? nil : declaration, line.findings)
    }

    fileprivate static let scopes = AdminScope.allCases.map(\.rawValue)

    fileprivate static func token(_ bytes: [UInt8]) throws(ParseError) -> [UInt8] {
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw ParseError("holds characters that a bearer token must not, use visible ASCII characters without spaces")
        }
        guard bytes.count >= ScopedToken.leastBytes else {
            throw ParseError("holds a token that is easy to guess, use \(ScopedToken.leastBytes) characters or more")
        }
        return bytes
    }
}
