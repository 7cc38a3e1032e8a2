internal import Credentials
internal import Wire

/// The console's cookie: the time of its end with an HMAC under a key that is derived from the admin token.
///
/// No gateway keeps it: one that was given by any gateway is good at all that have the same admin token, and a new admin token ends all
/// of them. Its path is the API's alone, so browsers never send it to a route of an upstream. Browsers do not tell ports of a host apart
/// (RFC 6265 §8.5), so its name also depends on the admin token: the consoles of two gateways on one host keep their sessions.
struct ConsoleSession: Sendable {
    /// The beginning of the cookie's name.
    static let cookiePrefix = "tollgate_console_"
    static let seconds: Int64 = 43_200
    /// By how much the clock of the gateway that gave it may be ahead, in seconds.
    private static let skewSeconds: Int64 = 60

    private let digest: KeyedDigest
    /// The same for all gateways with one admin token.
    let cookieName: String

    init(_ token: AdminToken) {
        digest = KeyedDigest(secret: token.bytes, label: "tollgate console session")
        cookieName = Self.cookiePrefix + Base64URL.encode(Array(digest.digest(Array("name".utf8)).prefix(6)).rawBytes)
    }

    /// A value that is good until `end`.
    func value(until end: WallTime) -> String {
        let time = Self.bytes(of: end.seconds)
        return Base64URL.encode((time + digest.digest(time)).rawBytes)
    }

    /// The end of a value; nil if it was not made with this token, or its time is over.
    func end(of value: String, now: WallTime) -> WallTime? {
        guard let bytes = Base64URL.decode(Array(value.utf8).rawBytes), bytes.count == 40 else { return nil }
        let time = Array(bytes[..<8])
        guard Digest.constantTimeEquals(Array(bytes[8...]).rawBytes, digest.digest(time).rawBytes) else { return nil }
        let seconds = Int64(bitPattern: time.reduce(0) { $0 << 8 | UInt64($1) })
        return now.seconds < seconds && seconds <= now.seconds + Self.seconds + Self.skewSeconds ? WallTime(seconds: seconds) : nil
    }

    private static func bytes(of seconds: Int64) -> [UInt8] {
        var out = ByteBuffer(capacity: 8)
        out.append(highBytes: UInt64(bitPattern: seconds), count: 8)
        return out.readable.array
    }

    // MARK: fields

    /// The value of `Set-Cookie`. `isSecure`: the console was reached over TLS.
    func cookie(_ value: String, isSecure: Bool) -> String {
        "\(cookieName)=\(value); HttpOnly; SameSite=Strict; Path=\(AdminAPI.path); Max-Age=\(value.isEmpty ? 0 : Self.seconds)"
            + (isSecure ? "; Secure" : "")
    }

    /// The values under the cookie's name in the fields of a request (RFC 6265 §5.4). A page of another port of the host may have set
    /// one as well.
    func values(in fields: [(name: String, value: String)]) -> [String] {
        fields.filter { $0.name.lowercased() == "cookie" }.flatMap { field in
            field.value.split(separator: ";").compactMap { pair in
                let words = pair.drop { $0 == " " }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                return words.count == 2 && words[0] == cookieName ? String(words[1]) : nil
            }
        }
    }
}
