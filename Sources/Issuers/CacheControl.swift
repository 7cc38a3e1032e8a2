internal import Wire

/// Parser of the `Cache-Control` directives that control the refresh of a key set (RFC 9111 §5.2.2).
enum CacheControl {
    /// `max-age` in milliseconds, at most a year; 0 for `no-store` and `no-cache`; nil without a usable directive.
    static func maxAge(_ value: String) -> UInt64? {
        var age: UInt64?
        for part in value.split(separator: ",") {
            let directive = part.lowercased().filter { $0 != " " && $0 != "\t" && $0 != "\"" }
            if directive == "no-store" || directive == "no-cache" { return 0 }
            guard directive.hasPrefix("max-age=") else { continue }
            let digits = directive.dropFirst(8)
            guard !digits.isEmpty, digits.utf8.allSatisfy(\.isASCIIDigit) else { continue }
            age = min(UInt64(digits) ?? 31_536_000, 31_536_000) * 1000
        }
        return age
    }
}
