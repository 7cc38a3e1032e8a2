internal import Accounts
internal import Wire

/// The share of a split that was set while gateways run: a live switch, whose subject is the route.
struct SplitShare: Equatable, Sendable {
    static let kind = "split"

    var percent: Int
    /// Whether a guard has set it (`split-guard=`), and no operator.
    var isGuards = false

    static func name(of route: String) -> String { SwitchBoard.name(kind, of: route) }

    init(percent: Int, isGuards: Bool = false) {
        (self.percent, self.isGuards) = (percent, isGuards)
    }

    /// nil for a text that a newer version may have written.
    init?(_ text: String) {
        let words = text.split(separator: " ")
        guard let percent = words.first.flatMap({ Int($0) }), 0...100 ~= percent else { return nil }
        self.init(percent: percent, isGuards: words.dropFirst().first == "guard")
    }

    var text: String { isGuards ? "\(percent) guard" : "\(percent)" }

    /// By route.
    static func all(_ switches: [LiveSwitch]) -> [String: SplitShare] {
        Dictionary(switches.compactMap { item in SplitShare(item.value).map { (String(item.subject), $0) } }) { $1 }
    }
}
