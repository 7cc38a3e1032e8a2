import Foundation

/// Stands between an app and the gateway, and loses or replaces answers on request: the gateway has done what was asked, and the app
/// never hears of it.
final class Relay: Sendable {
    /// Of a request whose target ends so; nil in place of an answer loses it.
    private typealias Fault = (ending: String, answer: String?)

    private let front: Upstream
    private let faults: Watched<[Fault]>
    /// Methods and targets that came by, in their order.
    let seen: Watched<[String]>

    init(to port: Int) throws {
        let (faults, seen) = (Watched<[Fault]>([]), Watched<[String]>([]))
        (self.faults, self.seen) = (faults, seen)
        front = try Upstream.raw { connection, _ in
            let gateway = try Connection(port: port)
            while true {
                let request = try connection.request()
                seen.change { $0.append("\(request.method) \(request.target)") }
                try gateway.send(request.head + request.body)
                let answer = try gateway.answer(to: request.method)
                var fault: Fault?
                faults.change { faults in
                    guard let next = faults.firstIndex(where: { request.target.hasSuffix($0.ending) }) else { return }
                    fault = faults.remove(at: next)
                }
                if let answer = fault?.answer {
                    try connection.send(answer)
                    continue
                }
                if fault != nil {
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
    func loseNextAnswer(to ending: String) { answerNext(to: ending, [nil]) }

    /// The next answers to such requests, nil for one that gets lost.
    func answerNext(to ending: String, _ answers: [String?]) { faults.change { $0 += answers.map { (ending, $0) } } }

    var hasLostIt: Bool { faults.now.isEmpty }
}
