import Wire

/// A part of the admin API that a token may be limited to.
package enum AdminScope: String, CaseIterable, Sendable {
    case usersRead = "users:read"
    case usersWrite = "users:write"
    case tier
    case sessions
    case delete
    case gatewayRead = "gateway:read"
}

/// A bearer token of the admin API that opens only the operations of its scopes.
package struct ScopedToken: Hashable, Sendable {
    /// Stands in the audit log.
    package let name: String
    /// Never printed.
    package var bytes: [UInt8]
    package var scopes: Set<AdminScope>

    /// The least length in bytes of a token.
    package static let minBytes = 16

    package init(name: String, bytes: [UInt8], scopes: Set<AdminScope>) {
        self.name = name
        self.bytes = bytes
        self.scopes = scopes
    }

    /// The scopes in the order of their declaration, separated by commas.
    package var scopeText: String { AdminScope.allCases.filter(scopes.contains).map(\.rawValue).joined(separator: ",") }

    /// In constant time.
    package func matches(_ presented: some StringProtocol) -> Bool {
        Digest.constantTimeEquals(bytes.rawBytes, Array(presented.utf8).rawBytes)
    }
}
