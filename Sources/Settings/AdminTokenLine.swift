package import Credentials
internal import Wire

/// A token of the admin API with scopes, as a `TOLLGATE_ADMIN_TOKEN_…` line declares it.
package struct AdminTokenDeclaration: Hashable, Sendable {
    package var token: ScopedToken
    package var origin: Origin
}

extension AdminTokenDeclaration: OptionTarget {
    package static let family = Setting.scopedAdminToken
    package static let isSecret = true
    package var lineName: String { token.name }
    package static let bare = Self(token: ScopedToken(name: "", bytes: [], scopes: []), origin: .builtIn)

    package static let options = table {
        LineOption("token-file", "a file", "the token, \(ScopedToken.minBytes) visible ASCII characters or more") { line, declaration in
            guard let path = line.text("token-file") else { return }
            let (sources, origin) = (line.context.sources, line.entry.origin)
            let bytes = line.parse("token-file", path) { file throws(ParseError) in
                try token(SecretFile.read(origin.path(file), sources))
            }
            if let bytes { declaration.token.bytes = bytes }
        } value: { _, _ in
            nil
        }
        LineOption(
            "scope", list: \.token.scopes, AdminScope.allCases.map(\.rawValue).joined(separator: ","),
            "what it may do, separated by commas; anything else is 403",
            part: { text throws(ParseError) in try TypedText.choice(text, scopes) },
            join: { Set($0.compactMap(AdminScope.init(rawValue:))) },
            show: { scopes in AdminScope.allCases.filter(scopes.contains).map(\.rawValue) })
    }

    /// nil if the line is empty or has no usable token.
    package init?(_ line: inout OptionLine, name: String) {
        if line.entry.value.isEmpty || !line.findings.faults.isEmpty { return nil }
        self.init(token: ScopedToken(name: name, bytes: [], scopes: []), origin: line.entry.origin)
        if !line.has("scope") {
            line.fault("has no scope, write scope= with one of \(Self.scopes.joined(separator: ", ")), or several separated by commas")
        } else if !line.has("token-file") {
            line.fault("has no token, write token-file= with the path of a file that holds it")
        }
        line.read(into: &self)
        if token.bytes.isEmpty { return nil }
    }

    private static let scopes = AdminScope.allCases.map(\.rawValue)

    private static func token(_ bytes: [UInt8]) throws(ParseError) -> [UInt8] {
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw ParseError("holds characters that a bearer token must not, use visible ASCII characters without spaces")
        }
        guard bytes.count >= ScopedToken.minBytes else {
            throw ParseError("holds a token that is easy to guess, use \(ScopedToken.minBytes) characters or more")
        }
        return bytes
    }
}
