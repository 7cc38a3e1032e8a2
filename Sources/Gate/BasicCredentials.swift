import Wire

/// Name and secret of a client in `Authorization: Basic` (RFC 7617), each form-encoded as OAuth demands (RFC 6749 §2.3.1). It
/// allocates: for the gateway's own endpoints.
struct BasicCredentials {
    /// Both are empty where the value is malformed, so that no caller matches.
    private(set) var name: [UInt8] = []
    private(set) var secret: [UInt8] = []

    /// nil for another scheme.
    init?(_ value: RawSpan) {
        guard value.byteCount > 6, value.extracting(0..<6).equalsIgnoringCase("basic ") else { return nil }
        var start = 6
        while start < value.byteCount, value[start] == 0x20 { start += 1 }
        guard let text = Base64.decode(value.dropping(start), isPadded: true), let colon = text.firstIndex(of: UInt8(ascii: ":")),
            let name = Self.decode(text[..<colon]), let secret = Self.decode(text[(colon + 1)...])
        else { return }
        (self.name, self.secret) = (name, secret)
    }

    private static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        PercentEncoding.decode(text.lazy.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 })
    }
}
