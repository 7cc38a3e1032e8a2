import Foundation

/// Stands between an app and the gateway, and loses answers on request: the gateway has done what was asked, and the app
/// never hears of it.
final class Relay: Sendable {
    private let front: Upstream
    private let losing: Watched<String?>
    /// Methods and targets that came by, in their order.
    let seen: Watched<[String]>

    init(to port: Int) throws {
        let (losing, seen) = (Watched<String?>(nil), Watched<[String]>([]))
        (self.losing, self.seen) = (losing, seen)
        front = try Upstream.raw { connection, _ in
            let gateway = try Connection(port: port)
            while true {
                let request = try connection.request()
                seen.change { $0.append("\(request.method) \(request.target)") }
                try gateway.send(request.head + request.body)
                let answer = try gateway.answer(to: request.method)
                if losing.now.map({ request.target.hasSuffix($0) }) == true {
                    losing.change { $0 = nil }
                    // A first byte, so that no library asks anew behind the app's back.
                    try connection.send("H")
                    return connection.reset()
                }
                try connection.send(answer.head + answer.body)
            }
        }
    }

    var url: String { front.url }
    var port: Int { front.port }

    /// The next answer to a request whose target ends so gets lost.
    func loseNextAnswer(to ending: String) { losing.change { $0 = ending } }

    var hasLostIt: Bool { losing.now == nil }
}
