internal import Wire

/// The one directive of a `Cache-Control` that a key set's refresh goes by (RFC 9111 §5.2.2).
enum CacheControl {
    /// How long the answer may be kept, in milliseconds; 0 for one that must not be; nil when nothing usable is said.
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
