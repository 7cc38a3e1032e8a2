package import Wire

/// Documents for filters, made at random: objects with and without tiers in all spellings, nested anyhow.
package struct FilterDocuments {
    /// Stands in everything that lies in an object above the caller's tier, and nowhere else.
    package static let marker = "SECRET"

    private var random: SplitMix64
    private let allowed: [String]

    /// `allowed` are the tiers that the caller may see.
    package init(random: SplitMix64, allowed: [String]) {
        self.random = random
        self.allowed = allowed
    }

    private static let spaces = ["", "", "", " ", "\n  ", "\t\r\n", "          "]
    private static let forbidden = [
        #""premium""#, #""gold""#, "null", "1", "true", #"["free"]"#, #"{"tier":"free"}"#, #""FREE""#, #""free ""#, #""""#,
        #""pr\u0065mium""#, #""\ud83d\ude42""#, #""free\ud83d""#,
    ]
    private static let keys = [#""tier""#, #""ti\u0065r""#, #""\u0074\u0069\u0065\u0072""#]
    private static let names = [
        #""id""#, #""results""#, #""items""#, #""data""#, #""tie""#, #""tiers""#, #""Tier""#, #""r\u0065sults""#, #""é""#, #""""#,
    ]

    /// The next document.
    package mutating func next() -> [UInt8] {
        let text = space() + (pick(0...9) == 0 ? list(depth: 4, isSecret: false) : envelope()) + space()
        return Array(text.utf8)
    }

    /// Mostly what servers answer: a list with words around it.
    private mutating func envelope() -> String {
        guard pick(0...3) > 0 else { return object(depth: 4, isSecret: false, isRoot: true) }
        let list = list(depth: 4, isSecret: false)
        return join(
            "{",
            [#""count":3"#, member(#""results""#, list), member(#""data""#, "{" + member(#""items""#, list) + "}")].shuffled(
                using: &random), "}")
    }

    private mutating func value(depth: Int, isSecret: Bool) -> String {
        switch depth == 0 ? 0 : pick(0...5) {
        case 1, 2, 3: return object(depth: depth - 1, isSecret: isSecret)
        case 4: return list(depth: depth - 1, isSecret: isSecret)
        default: return scalar(isSecret: isSecret)
        }
    }

    private mutating func list(depth: Int, isSecret: Bool) -> String {
        let count = pick(0...4)
        var elements: [String] = []
        for _ in 0..<count {
            elements.append(pick(0...3) == 0 ? value(depth: depth, isSecret: isSecret) : object(depth: depth - 1, isSecret: isSecret))
        }
        return join("[", elements, "]")
    }

    private mutating func object(depth: Int, isSecret: Bool, isRoot: Bool = false) -> String {
        guard depth >= 0 else { return scalar(isSecret: isSecret) }
        var labels: [String] = []
        var isAbove = false
        // A root object goes out as soon as its tier is known to be low enough, so it has no second one here.
        for _ in 0..<[0, 1, 1, 1, isRoot ? 1 : 2][pick(0...4)] {
            if pick(0...1) == 0 {
                labels.append("\"\(allowed.randomElement(using: &random)!)\"")
            } else {
                labels.append(Self.forbidden.randomElement(using: &random)!)
                isAbove = true
            }
        }
        var members = labels.map { label in member(Self.keys.randomElement(using: &random)!, label) }
        for _ in 0..<pick(0...3) {
            let name = isSecret || isAbove ? "\"\(Self.marker)\(pick(0...9))\"" : Self.names.randomElement(using: &random)!
            members.append(member(name, value(depth: depth, isSecret: isSecret || isAbove)))
        }
        return join("{", members.shuffled(using: &random), "}")
    }

    private mutating func scalar(isSecret: Bool) -> String {
        if isSecret { return "\"\(Self.marker) \(pick(0...99))\"" }
        return [
            "1", "-0.5e+10", "true", "false", "null",
            #""a longer text, which takes more than one or two words: é漢🙂 and \n \" \ud83d\ude42""#,
            #""""#, "12345678901234567890", #""tier""#, #""cut \ud83d""#, #""\ude42\ud83d\u0041""#, #""{\"tier\":\"premium\"}""#,
        ].randomElement(using: &random)!
    }

    private mutating func member(_ name: String, _ value: String) -> String { name + space() + ":" + space() + value }

    private mutating func join(_ open: String, _ parts: [String], _ close: String) -> String {
        guard !parts.isEmpty else { return open + space() + close }
        var out = open
        for (index, part) in parts.enumerated() {
            if index > 0 { out += "," }
            out += space() + part + space()
        }
        return out + close
    }

    private mutating func space() -> String { Self.spaces.randomElement(using: &random)! }

    private mutating func pick(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
}
