package import Wire

/// An internal caller, as a `TOLLGATE_INTERNAL_…` line declares it. All conditions that are given must match.
package struct InternalDeclaration: Hashable, Sendable {
    package var name: String
    /// The SHA-256 (32 bytes) of the key in `X-Internal-Key`; nil: not checked.
    package var keyDigest: [UInt8]?
    /// The networks of its address, one of which must match; empty: not checked.
    package var networks: [CIDR]
    /// A subject alternative name of its client certificate; nil: not checked.
    package var certificateName: String?
    package var origin: Origin
}

extension InternalDeclaration: OptionTarget {
    package static let bare = Self(name: "", networks: [], origin: .builtIn)

    package static let options = table {
        LineOption("key-sha256", ifSet: \.keyDigest, .digest, "64 hex digits", "the SHA-256 of the key that it sends as `X-Internal-Key`")
        LineOption(
            "cidr", list: \.networks, "10.0.0.0/8", "the network of its address; several are separated by commas", part: TypedText.network,
            join: { $0 }, show: { $0.map(\.text) })
        LineOption(
            "cert-san", ifSet: \.certificateName, .text, "spiffe://…",
            "a DNS name or URI in its client certificate; needs `TOLLGATE_TLS_CLIENT_CA`")
    }
}

extension OptionForm where Value == [UInt8] {
    /// A SHA-256, of which only the beginning is printed.
    fileprivate static var digest: Self {
        Self(plain: { text throws(ParseError) in
            let digits = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
            guard digits.count == 64, text.utf8.count == 64 else {
                throw ParseError("is no SHA-256, write 64 hex digits, as sha256sum prints them")
            }
            return stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
        }) { digest in
            OptionValue(digest.prefix(4).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() + "…")
        }
    }
}

/// Parser of `TOLLGATE_INTERNAL_<NAME>`.
enum InternalLine {
    static func parse(_ entry: EnvEntry, name: String, _ sources: SettingSources) -> (InternalDeclaration, Findings) {
        var line = OptionLine(entry, InternalDeclaration.self, sources)
        line.refuseWords("key-sha256=HEX, cidr=10.0.0.0/8 or cert-san=NAME")
        if !InternalDeclaration.options.contains(where: { line.has($0.key) }), line.findings.faults.isEmpty {
            line.fault("has no condition, write key-sha256=HEX, cidr=10.0.0.0/8, cert-san=NAME or several of them")
        }
        var caller = InternalDeclaration(name: name, networks: [], origin: entry.origin)
        line.read(into: &caller)
        return (caller, line.findings)
    }
}
