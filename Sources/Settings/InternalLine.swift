package import Gate
internal import Wire

/// An internal caller, as a `TOLLGATE_INTERNAL_…` line declares it. All conditions that are given must match.
package struct InternalDeclaration: Sendable {
    package var caller: InternalCaller
    package var origin: Origin
}

extension InternalDeclaration: OptionTarget {
    package static let family = Setting.internalCaller
    package var lineName: String { caller.name }
    package static let bare = Self(caller: InternalCaller(name: ""), origin: .builtIn)

    package static let options = table {
        LineOption(
            "key-sha256", ifSet: \.caller.keySHA256, .digest, "64 hex digits", "the SHA-256 of the key that it sends as `X-Internal-Key`")
        LineOption(
            "cidr", list: \.caller.networks, "10.0.0.0/8", "the network of its address; several are separated by commas",
            part: TypedText.network,
            join: { $0 }, show: { $0.map(\.text) })
        LineOption(
            "cert-san", ifSet: \.caller.certificateName, .text, "spiffe://…",
            "a DNS name or URI in its client certificate; needs `TOLLGATE_TLS_CLIENT_CA`")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(caller: InternalCaller(name: name), origin: line.entry.origin)
        line.refuseWords("key-sha256=HEX, cidr=10.0.0.0/8 or cert-san=NAME")
        if !Self.options.contains(where: { line.has($0.key) }), line.findings.faults.isEmpty {
            line.fault("has no condition, write key-sha256=HEX, cidr=10.0.0.0/8, cert-san=NAME or several of them")
        }
        line.read(into: &self)
    }
}

extension OptionForm where Value == [UInt8] {
    /// A SHA-256, of which only the beginning is printed.
    fileprivate static var digest: Self {
        Self(plain: { text throws(ParseError) in
            guard let digest = InternalCaller.digest(hex: text) else {
                throw ParseError("is no SHA-256, write 64 hex digits, as sha256sum prints them")
            }
            return digest
        }) { digest in
            OptionValue(digest.prefix(4).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() + "…")
        }
    }
}
