package import Wire

/// A trusted service as a line declared it. All that is given must hold.
package struct InternalDeclaration: Hashable, Sendable {
    package var name: String
    /// The SHA-256 of the key it sends as `X-Internal-Key`: 32 bytes.
    package var keyDigest: [UInt8]?
    /// Where it calls from, any of these; empty: not looked at.
    package var networks: [CIDR]
    package var origin: Origin
}

extension LineOption {
    package static let internalCaller: [LineOption] = [
        LineOption("key-sha256", "64 hex digits", "the SHA-256 of the key that it sends as `X-Internal-Key`"),
        LineOption("cidr", "10.0.0.0/8", "where it calls from; several are separated by commas"),
        LineOption(
            "cert-san", "spiffe://…", "a name in its client certificate", stage: .refused(exceptPrefixes: [])),
    ]
}

/// The grammar of `TOLLGATE_INTERNAL_<NAME>`.
enum InternalLine {
    static func parse(_ entry: EnvEntry, name: String) -> (InternalDeclaration, Findings) {
        var line = OptionLine(entry, knows: LineOption.internalCaller)
        for word in line.words { line.fault("\(quoted(word)) is no option, write key-sha256=HEX or cidr=10.0.0.0/8") }
        if !line.has("key-sha256"), !line.has("cidr"), line.findings.faults.isEmpty {
            line.fault("says nothing that must hold, write key-sha256=HEX, cidr=10.0.0.0/8 or both")
        }
        let digest = line.value("key-sha256") { text throws(Complaint) in try Self.digest(text) }
        let networks = line.list("cidr") { text throws(Complaint) in try TypedText.network(text) }
        let caller = InternalDeclaration(
            name: name, keyDigest: digest, networks: networks ?? [], origin: entry.origin)
        return (caller, line.findings)
    }

    private static func digest(_ text: String) throws(Complaint) -> [UInt8] {
        let digits = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        guard digits.count == 64, text.utf8.count == 64 else {
            throw Complaint("is no SHA-256, write 64 hex digits, as sha256sum prints them")
        }
        return stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
    }
}
