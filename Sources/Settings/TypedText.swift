internal import Credentials
package import Gate
package import Wire

/// Parsers of the value types that settings, line options and commands share. Each throws what is wrong and what would be right.
package enum TypedText {
    /// A whole number in `range`.
    package static func count(_ text: String, _ range: ClosedRange<Int>) throws(ParseError) -> Int {
        guard !text.isEmpty, text.utf8.count <= 18, text.utf8.allSatisfy({ $0.isASCIIDigit }), let value = Int(text) else {
            throw ParseError("is no whole number, write one from \(range.lowerBound) to \(range.upperBound)")
        }
        guard range.contains(value) else {
            throw ParseError("is out of range, write a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    /// A number for each tier, by its rank: one for all, or a list like `free:5,premium:20`, which must name the lowest tier. A tier that
    /// it leaves out has the number of the nearest lower one.
    package static func countByTier(_ text: String, _ range: ClosedRange<Int>, _ tiers: TierList) throws(ParseError) -> [Int] {
        guard text.contains(":") else { return Array(repeating: try count(text, range), count: tiers.names.count) }
        var named: [Int?] = Array(repeating: nil, count: tiers.names.count)
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = item.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, let tier = tiers.rank(of: parts[0]) else {
                throw ParseError("has a part that names no tier, write TIER:NUMBER with one of \(tiers.names.joined(separator: ", "))")
            }
            guard named[Int(tier.rawValue)] == nil else { throw ParseError("names the tier \(parts[0]) twice, keep one of them") }
            named[Int(tier.rawValue)] = try count(parts[1], range)
        }
        guard var last = named[0] else { throw ParseError("leaves out \(tiers.names[0]), the lowest tier, name it too") }
        return named.map { number in
            last = number ?? last
            return last
        }
    }

    /// A scope of RFC 6749.
    package static func scope(_ text: String) throws(ParseError) -> String {
        guard ScopeName.isValid(text) else {
            throw ParseError("has a scope that is empty or not visible ASCII without quotes and backslashes, write ones like feed:read")
        }
        return text
    }

    /// The scopes of each tier by its rank, from words like `premium=feed:read,feed:write`. A tier that is left out has none.
    static func scopesByTier(_ words: [String], _ tiers: TierList) throws(ParseError) -> [[String]] {
        var named: [[String]?] = Array(repeating: nil, count: tiers.names.count)
        for word in words {
            let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2, let tier = tiers.rank(of: parts[0]) else {
                throw ParseError("has a part that names no tier, write TIER=SCOPE,SCOPE with one of \(tiers.names.joined(separator: ", "))")
            }
            guard named[Int(tier.rawValue)] == nil else { throw ParseError("names the tier \(parts[0]) twice, keep one of them") }
            var scopes: [String] = []
            for part in parts[1].split(separator: ",", omittingEmptySubsequences: false) { scopes.append(try scope(String(part))) }
            named[Int(tier.rawValue)] = scopes
        }
        return named.map { $0 ?? [] }
    }

    /// A percentage in `range`.
    package static func percentage(_ text: String, _ range: ClosedRange<Int>) throws(ParseError) -> Int {
        guard text.hasSuffix("%"), text.utf8.count <= 5, text.utf8.dropLast().allSatisfy({ $0.isASCIIDigit }),
            let value = Int(text.dropLast())
        else {
            throw ParseError("is no percentage, write one from \(range.lowerBound)% to \(range.upperBound)%")
        }
        guard range.contains(value) else {
            throw ParseError("is out of range, write a percentage from \(range.lowerBound)% to \(range.upperBound)%")
        }
        return value
    }

    /// A duration in `range`, in milliseconds.
    package static func duration(_ text: String, _ range: ClosedRange<UInt64>) throws(ParseError) -> UInt64 {
        guard let value = DurationText.parse(text) else {
            throw ParseError("is no duration, write one like 500ms, 10s, 5m, 24h or 30d")
        }
        guard range.contains(value) else {
            throw ParseError(
                "is out of range, write a duration from \(DurationText.text(range.lowerBound)) to \(DurationText.text(range.upperBound))")
        }
        return value
    }

    /// A size in bytes.
    package static func size(_ text: String) throws(ParseError) -> UInt64 {
        guard let value = SizeText.parse(text) else {
            throw ParseError("is no size, write one like 512, 64KiB or 10MiB")
        }
        return value
    }

    /// A size in `range`, in bytes.
    package static func size(_ text: String, _ range: ClosedRange<Int>) throws(ParseError) -> Int {
        let value = try size(text)
        guard value <= UInt64(range.upperBound), range.contains(Int(value)) else {
            let (least, most) = (SizeText.text(UInt64(range.lowerBound)), SizeText.text(UInt64(range.upperBound)))
            throw ParseError("is out of range, write a size from \(least) to \(most)")
        }
        return Int(value)
    }

    /// A rate without `+lease`: these limits are always counted exactly.
    package static func rate(_ text: String) throws(ParseError) -> LimitRate {
        guard let rate = LimitRate(parsing: text), !rate.mayLease else {
            throw ParseError("is no rate, write one like 300/h or 300/h+burst=100")
        }
        return rate
    }

    /// A schema of PostgreSQL: a plain identifier that is not one of the server's, nor that which programs share.
    package static func schemaName(_ text: String) throws(ParseError) -> String {
        let isPlain =
            (1...48).contains(text.utf8.count) && text.utf8.first?.isASCIIDigit == false
            && text.utf8.allSatisfy { $0.isASCIIDigit || $0 == UInt8(ascii: "_") || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
        guard isPlain else {
            throw ParseError("is no name of a schema, write up to 48 lower-case letters, digits and _, not a digit first")
        }
        guard !text.hasPrefix("pg_"), text != "information_schema", text != "public" else {
            throw ParseError("is a schema of PostgreSQL's or of all programs, write a name of Tollgate's own, such as tollgate")
        }
        return text
    }

    /// One of `choices`.
    package static func choice(_ text: String, _ choices: [String]) throws(ParseError) -> String {
        guard choices.contains(text) else { throw ParseError("is not known, write \(alternatives(choices))") }
        return text
    }

    /// An absolute `http` or `https` URL with a host, unchanged.
    package static func webURL(_ text: String) throws(ParseError) -> String {
        let scheme = text.hasPrefix("https://") ? 8 : text.hasPrefix("http://") ? 7 : 0
        guard scheme > 0 else { throw ParseError("is no URL, write one like https://example.org/path") }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") }) else {
            throw ParseError("contains characters that no URL has, percent-encode them")
        }
        let rest = text.utf8.dropFirst(scheme)
        let authority = String(decoding: rest.prefix { !UInt8.endsAuthority($0) }, as: UTF8.self)
        _ = try HostAndPort(authority, defaultPort: 80)
        return text
    }

    /// A URL that a mail may link to: of the web, or of an app's own scheme (`myapp://reset`), unchanged.
    package static func linkURL(_ text: String) throws(ParseError) -> String {
        guard let end = text.firstRange(of: "://"), !["http", "https"].contains(text[..<end.lowerBound].lowercased()) else {
            return try webURL(text)
        }
        let scheme = text[..<end.lowerBound]
        let isScheme =
            scheme.utf8.first?.isASCIILetter == true
            && scheme.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "+-.".utf8.contains($0) }
        guard isScheme, !["javascript", "data", "vbscript", "file", "ftp"].contains(scheme.lowercased()) else {
            throw ParseError("is no URL, write one like https://example.org/path or myapp://path")
        }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") }) else {
            throw ParseError("contains characters that no URL has, percent-encode them")
        }
        return text
    }

    /// A network or an address.
    package static func network(_ text: String) throws(ParseError) -> CIDR {
        guard let network = CIDR(parsing: text) else {
            throw ParseError("is no network, write one like 10.0.0.0/8 or fd00::/8")
        }
        return network
    }

    /// The value of `Strict-Transport-Security` (RFC 6797 §6.1) from `180d[,subdomains][,preload]`.
    static func strictTransport(_ text: String) throws(ParseError) -> String {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        let seconds = try duration(parts[0], 0...315_360_000_000) / 1_000
        let (flags, known) = (parts.dropFirst(), ["subdomains", "preload"])
        guard flags.allSatisfy(known.contains), Set(flags).count == flags.count else {
            throw ParseError("has another part than a duration, subdomains and preload, each once, write one like 180d,subdomains")
        }
        if flags.contains("preload"), !flags.contains("subdomains") || seconds < 31_536_000 {
            throw ParseError("has preload, for which browsers want more, write 365d,subdomains,preload")
        }
        return "max-age=\(seconds)" + (flags.contains("subdomains") ? "; includeSubDomains" : "")
            + (flags.contains("preload") ? "; preload" : "")
    }

    static func codings(_ text: String) throws(ParseError) -> CompressionCodings {
        if text == "off" { return .none }
        let words = text.split(whereSeparator: { $0 == " " || $0 == "," }).map(String.init)
        guard !words.isEmpty, let codings = CompressionCodings(words) else {
            throw ParseError("is no list of codings, write some of \(CompressionCodings.names.joined(separator: " ")), each once, or off")
        }
        return codings
    }

    static func mediaType(_ text: String) throws(ParseError) -> String {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        let isType =
            parts.count == 2
            && parts.allSatisfy { part in
                !part.isEmpty && part.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "+-._".utf8.contains($0) }
            }
        guard isType else { throw ParseError("is no media type, write one like application/wasm, without parameters") }
        return text.lowercased()
    }

    /// A host name without a port, in lower case.
    package static func hostName(_ text: String) throws(ParseError) -> String {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        let isName = labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && label.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 45 || $0 == 95 }
        }
        guard isName, text.utf8.count <= 253 else {
            throw ParseError("is no host name, write one like gateway.example.org, without a port")
        }
        return text.lowercased()
    }

    /// A change of an account of which its user may be told.
    package static func noticeTopic(_ text: String) throws(ParseError) -> String {
        try choice(text, ["new-device", "password", "email", "passkey", "factor"])
    }

    /// The hash of an app for Android's SMS Retriever.
    package static func appHash(_ text: String) throws(ParseError) -> String {
        guard text.utf8.count == 11, text.utf8.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || $0 == 43 || $0 == 47 }) else {
            throw ParseError("is no hash of an Android app, write the 11 characters that its signing gives, like FA+9qCX9VSu")
        }
        return text
    }

    /// A lower-case name of a tier, a claim's value and the like: letters, digits, `-`, `_` and `.`.
    package static func name(_ text: String) throws(ParseError) -> String {
        let fits = text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 45 || $0 == 46 || $0 == 95 }
        guard fits, !text.isEmpty, text.utf8.count <= 64 else {
            throw ParseError("is no name, use up to 64 letters, digits, - and _")
        }
        return text
    }
}

extension UInt8 {
    fileprivate static func endsAuthority(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }
}
