internal import Accounts
internal import Admin
internal import Credentials
internal import Fetch
internal import Settings
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

/// Posts to services of the operator: events of accounts, and the questions of the sign-up hook.
final class Webhooks: Sendable {
    private static let milliseconds = 5_000
    private static let largestAnswer = 65_536

    private let events = TransferThread(
        name: "events", TransferThread.Limits(underWay: 64, queued: 1_024, queuedMilliseconds: 5_000))
    private let questions = TransferThread(
        name: "hooks", TransferThread.Limits(underWay: 64, queued: 1_024, queuedMilliseconds: 1_000))

    /// Aborts all requests and ends the threads. Blocks.
    func stop() {
        events.stop()
        questions.stop()
    }

    /// The subscribers of a configuration.
    func subscribers(_ settings: Configuration) -> [EventSubscriber] {
        settings.events.compactMap { line in
            guard let url = line.url else { return nil }
            let keys = line.secrets.compactMap { WebhookSignature.key($0.bytes) }
            return EventSubscriber(name: line.name, kinds: line.chosenKinds) { [events] event in
                var request = Self.request(url, id: event.id.text, body: event.body, keys, milliseconds: Self.milliseconds)
                request.isPublicOnly = !line.allowsPrivate
                let answer = await events.send(request)
                if let problem = answer.problem { return DeliveryFailure(reason: problem, isAway: true) }
                return (200..<300).contains(answer.status) ? nil : DeliveryFailure(status: answer.status)
            }
        }
    }

    /// The hook of a configuration; nil without one.
    func signUpHook(_ settings: Configuration, report: @escaping @Sendable (SignUpAnswer, _ problem: String?) -> Void) -> SignUpHook? {
        guard let line = settings.signUpHook, let url = line.url else { return nil }
        let keys = line.secrets.compactMap { WebhookSignature.key($0.bytes) }
        return { [questions] signUp in
            let words = SecureRandom.bytes(16)
            let id = UUID(at: EventLoop.now().wall, random: (words.rawBytes.load64(0), words.rawBytes.load64(8))).text
            var request = Self.request(url, id: id, body: signUp.body, keys, milliseconds: line.timeoutMilliseconds)
            // A sign-up is asked about once.
            request.isSentOnce = true
            let ended = await questions.send(request)
            let (answer, problem) = SignUpAnswer.read(ended, opensOnFailure: line.opensOnFailure)
            report(answer, problem)
            return answer
        }
    }

    private static func request(_ url: String, id: String, body: [UInt8], _ keys: [[UInt8]], milliseconds: Int) -> HTTPTransfer {
        HTTPTransfer(
            url: url, connectMilliseconds: milliseconds, totalMilliseconds: milliseconds, largestBody: largestAnswer, body: body,
            fields: WebhookSignature.fields(id: id, body: body, keys: keys, now: EventLoop.now().wall))
    }

    /// Reports words that stand for no kind of event, and addresses at which no event could arrive.
    static func check(_ settings: Configuration, _ findings: inout Findings) {
        for line in settings.events {
            if let host = line.privateHost, !line.allowsPrivate {
                findings.fault(line, "has url= with the private address \(host), where nothing is sent: write private=on, or a public one")
            }
            for word in line.kinds where AccountEvent.Kind.allCases.allSatisfy({ !$0.isMeant(by: word) }) {
                let kinds = AccountEvent.Kind.allCases.map(\.rawValue).joined(separator: ", ")
                findings.fault(line, "has kinds=\(word), which is no kind of event: write * or account.*, or of \(kinds)")
            }
        }
    }
}

extension EventsDeclaration {
    /// The host of its URL, if that is an address that the Internet does not lead to. A name is looked up only when an event is sent.
    fileprivate var privateHost: String? {
        guard let host = url.flatMap({ AdminHosts.host(ofURL: $0) }) else { return nil }
        let address = IPAddress(parsing: host)
        return host == "localhost" || address?.isPublic == false ? host : nil
    }

    fileprivate var chosenKinds: Set<AccountEvent.Kind> {
        Set(AccountEvent.Kind.allCases.filter { kind in kinds.contains { kind.isMeant(by: $0) } })
    }
}

extension AccountEvent.Kind {
    /// `*`, a group like `account.*`, or the kind itself.
    fileprivate func isMeant(by word: String) -> Bool {
        word == "*" || word == rawValue || word.hasSuffix(".*") && rawValue.hasPrefix(word.dropLast())
    }
}

extension SignUp {
    /// The body that the hook is sent.
    fileprivate var body: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.field("type", "signup")
        json.key("data")
        json.beginObject()
        json.field("contract", contract.name)
        json.optional("email", email?.text)
        json.optional("username", username?.text)
        json.key("metadata")
        json.verbatim(metadata.json.rawBytes)
        json.optional("address", address?.text)
        json.endObject()
        json.endObject()
        return json.finish().readable.array
    }
}

extension SignUpAnswer {
    /// The answer of the hook, and why it is none. Anything but an object that says yes or no is none.
    static func read(_ ended: EndedTransfer, opensOnFailure: Bool) -> (SignUpAnswer, problem: String?) {
        func failed(_ problem: String) -> (SignUpAnswer, String?) { (opensOnFailure ? .admitted(.none) : .unavailable, problem) }
        if let problem = ended.problem { return failed(problem) }
        guard ended.status == 200 else { return failed("the answer has the status \(ended.status)") }
        do throws(RequestObject.Fault) {
            let answer = try RequestObject(ended.body)
            if let sentence = try answer.text("reject") { return (.rejected(String(sentence.prefix(500))), nil) }
            guard let json = try answer.json("attributes") else { return (.admitted(.none), nil) }
            do throws(Metadata.Fault) {
                return (.admitted(try Attributes(json: json.rawBytes)), nil)
            } catch {
                return failed("the answer has attributes of more than \(Attributes.largest) bytes, or that are no object")
            }
        } catch {
            return failed("the answer is no JSON object with a string as reject or an object as attributes")
        }
    }
}

extension SignUpAnswer {
    /// For the metrics.
    var word: String {
        switch self {
        case .admitted: "admitted"
        case .rejected: "rejected"
        case .unavailable: "failed"
        }
    }
}

extension EventMetrics {
    /// Counts a report. Pure.
    mutating func add(_ report: EventReport) {
        switch report {
        case .sent(let subscriber, let arrived, let failed, _, _):
            sent(to: subscriber, result: "arrived", arrived)
            sent(to: subscriber, result: "failed", failed)
        case .parked(let subscriber, _, _, _): sent(to: subscriber, result: "parked", 1)
        case .state(let state): pending(state.name, waiting: state.waiting, parked: state.parked, behind: state.behind)
        case .left(let subscriber): forget(subscriber)
        }
    }
}
