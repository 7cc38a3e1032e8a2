internal import System
internal import Transport

/// The side of the new process: the listeners of the gateway before it, and the word that they are its own.
struct Takeover {
    private let channel: DescriptorChannel
    private(set) var listeners = InheritedListeners()

    struct Fault: Error, CustomStringConvertible {
        let description: String
    }

    /// Receives the listeners; nil if no gateway runs that hands any over.
    init?(_ environment: [(name: String, value: String)]) throws {
        guard let value = environment.first(where: { $0.name == Succession.variable })?.value else { return nil }
        guard let descriptor = Int32(value) else {
            throw Fault(description: "\(Succession.variable)=\(value) is no descriptor; a gateway that is upgraded sets it, unset it")
        }
        channel = try DescriptorChannel(adopting: descriptor)
        while true {
            let (message, sockets) = try next()
            if case .listener(let kind, let declared) = message {
                listeners.add(kind, declared, sockets)
            } else if message == .complete {
                return
            } else {
                throw Fault(description: "the running gateway speaks otherwise; restart instead")
            }
        }
    }

    /// This process accepts connections: the other drains. Throws if it has ended instead, or has given the upgrade up.
    func finish() throws {
        try channel.send(HandoverMessage.ready.text)
        guard try next().message == .yours else { throw Fault(description: "the running gateway speaks otherwise; restart instead") }
    }

    private func next() throws -> (message: HandoverMessage, sockets: [Socket]) {
        while true {
            switch channel.receive(milliseconds: -1) {
            case .message(let text, let descriptors):
                guard let message = HandoverMessage(parsing: text) else {
                    throw Fault(description: "the running gateway speaks otherwise; restart instead")
                }
                return (message, descriptors.map { Socket(descriptor: $0) })
            case .nothing: continue
            case .closed: throw Fault(description: "the running gateway has ended, or has given the upgrade up")
            }
        }
    }
}
