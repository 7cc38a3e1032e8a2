/// `text` with `***` for the user information and the query of each URL in it (RFC 3986 §3.2.1, §3.4), also where a password has
/// characters that a URL cannot have there. A query is masked to the end of its word, with what follows it there.
package func maskingURLSecrets(_ text: String) -> String {
    var out = Substring(), rest = text[...]
    while let scheme = rest.firstRange(of: "://") {
        out += rest[..<scheme.upperBound]
        rest = rest[scheme.upperBound...]
        let authority = rest.prefix { !" \t\"'/?#,".contains($0) }
        // A colon without a port behind it begins a password, and so does one whose digits end at `#` or `?`, where `/` is usual.
        let password = authority.lastIndex(of: ":").map { authority[authority.index(after: $0)...] }
        let next = rest.dropFirst(authority.count).first
        let isCut = password.map { $0.isEmpty || !$0.allSatisfy(\.isNumber) || next == "#" || next == "?" } ?? false
        let info = authority.contains("@") || !isCut ? authority : rest.prefix { !" \t\"'".contains($0) }
        if let at = info.lastIndex(of: "@") {
            out += "***"
            rest = rest[at...]
        }
        let following = rest.firstRange(of: "://")?.lowerBound ?? rest.endIndex
        guard let query = rest[..<following].prefix(while: { !" \t\"".contains($0) }).firstIndex(of: "?") else { continue }
        out += rest[..<query] + "?***"
        rest = rest[query...].drop { !" \t\"".contains($0) }
    }
    return String(out + rest)
}
