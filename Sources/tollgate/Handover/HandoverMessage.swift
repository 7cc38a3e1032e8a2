internal import Wire

/// A message between a running gateway and the process that replaces it.
///
/// The running gateway sends its listeners, at most `DescriptorChannel.maxDescriptors` sockets a message, and `complete`. The new process
/// answers `ready` once it accepts connections, and receives `yours` before the old process drains. A channel that closes before that ends the
/// upgrade, and a new process that has not been told so ends.
enum HandoverMessage: Equatable {
    /// Sockets of this protocol and declared address come with the message.
    case listener(ListenerKind, SocketAddress)
    case complete
    case ready
    case yours

    /// Changes with the meaning of messages, so that two versions that differ refuse each other.
    private static let version = "tollgate-handover/1"

    var text: String {
        switch self {
        case .listener(let kind, let address): "\(Self.version) listener \(kind.rawValue) \(address)"
        case .complete: "\(Self.version) complete"
        case .ready: "\(Self.version) ready"
        case .yours: "\(Self.version) yours"
        }
    }

    /// nil for anything else.
    init?(parsing text: String) {
        let words = text.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        guard words.count >= 2, words[0] == Self.version else { return nil }
        switch (words[1], words.count) {
        case ("listener", 4):
            guard let kind = ListenerKind(rawValue: words[2]), let address = SocketAddress(parsing: words[3]) else { return nil }
            self = .listener(kind, address)
        case ("complete", 2): self = .complete
        case ("ready", 2): self = .ready
        case ("yours", 2): self = .yours
        default: return nil
        }
    }
}

/// The protocol of a listener, as the log names it.
enum ListenerKind: String, CaseIterable {
    case http, https, check, admin
}
