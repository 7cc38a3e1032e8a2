internal import Accounts
internal import Wire

/// The share of a split that was set while gateways run: a live switch, whose subject is the route.
struct SplitShare: Equatable, Sendable {
    static let kind = "split"

    var percent: Int

    static func name(of route: String) -> String { SwitchBoard.name(kind, of: route) }

    init(percent: Int) { self.percent = percent }

    /// nil for a text that a newer version may have written.
    init?(_ text: String) {
        guard let percent = Int(text), 0...100 ~= percent else { return nil }
        self.init(percent: percent)
    }

    var text: String { "\(percent)" }

    /// By route.
    static func all(_ switches: [LiveSwitch]) -> [String: SplitShare] {
        Dictionary(switches.compactMap { item in SplitShare(item.value).map { (String(item.subject), $0) } }) { $1 }
    }
}
