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

extension LineOption {
    package static let internalCaller: [LineOption] = [
        LineOption("key-sha256", "64 hex digits", "the SHA-256 of the key that it sends as `X-Internal-Key`"),
        LineOption("cidr", "10.0.0.0/8", "the network of its address; several are separated by commas"),
        LineOption("cert-san", "spiffe://…", "a DNS name or URI in its client certificate; needs `TOLLGATE_TLS_CLIENT_CA`"),
    ]
}

/// Parser of `TOLLGATE_INTERNAL_<NAME>`.
enum InternalLine {
    static func parse(_ entry: EnvEntry, name: String) -> (InternalDeclaration, Findings) {
        var line = OptionLine(entry, knows: LineOption.internalCaller)
        for word in line.words { line.fault("\(quoted(word)) is no option, write key-sha256=HEX, cidr=10.0.0.0/8 or cert-san=NAME") }
        if !["key-sha256", "cidr", "cert-san"].contains(where: line.has), line.findings.faults.isEmpty {
            line.fault("has no condition, write key-sha256=HEX, cidr=10.0.0.0/8, cert-san=NAME or several of them")
        }
        let digest = line.value("key-sha256") { text throws(ParseError) in try Self.digest(text) }
        let networks = line.list("cidr") { text throws(ParseError) in try TypedText.network(text) }
        let caller = InternalDeclaration(
            name: name, keyDigest: digest, networks: networks ?? [], certificateName: line.text("cert-san"), origin: entry.origin)
        return (caller, line.findings)
    }

    private static func digest(_ text: String) throws(ParseError) -> [UInt8] {
        let digits = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        guard digits.count == 64, text.utf8.count == 64 else {
            throw ParseError("is no SHA-256, write 64 hex digits, as sha256sum prints them")
        }
        return stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
    }
}
