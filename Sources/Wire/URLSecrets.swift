/// `text` with `***` for the user information and the query of each URL in it (RFC 3986 §3.2.1, §3.4), also where a password has
/// characters that a URL cannot have there. A query is masked to the end of its word, with what follows it there.
package func maskingURLSecrets(_ text: String) -> String {
    var out = Substring(), rest = text[...]
    while let scheme = rest.firstRange(of: "://") {
        out += rest[..<scheme.upperBound]
        rest = rest[scheme.upperBound...]
        let url = rest.prefix { !" \t\"'".contains($0) }
        let authority = url.prefix { !"/?#,".contains($0) }
        // A colon that begins no port begins a password.
        let password = authority.lastIndex(of: ":").map { authority[authority.index(after: $0)...] }
        let isCut = password.map { !$0.allSatisfy(\.isNumber) } ?? false
        if let at = (authority.contains("@") || !isCut ? authority : url).lastIndex(of: "@") {
            out += "***"
            rest = rest[at...]
        }
        let word = rest.prefix { !" \t\"".contains($0) }
        let next = rest.firstRange(of: "://")?.lowerBound ?? rest.endIndex
        guard let query = word.firstIndex(of: "?"), query < next else { continue }
        out += rest[..<query] + "?***"
        rest = rest[word.endIndex...]
    }
    return String(out + rest)
}
