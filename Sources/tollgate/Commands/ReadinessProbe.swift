internal import Fetch
internal import Wire

/// Asks the running gateway of a configuration for `/readyz`, over its admin listener.
enum ReadinessProbe {
    struct Fault: Error {
        let text: String
    }

    /// Bytes of an answer that are read at most.
    private static let largestAnswer = 1 << 20

    /// Blocks for up to `milliseconds`, of which connecting takes `connectMilliseconds` at most.
    static func ask(_ address: SocketAddress, connectMilliseconds: Int, milliseconds: Int) -> Result<EndedTransfer, Fault> {
        let (host, path) = target(address)
        let request = HTTPTransfer(
            url: "http://\(host)/readyz", connectMilliseconds: connectMilliseconds, totalMilliseconds: milliseconds,
            largestBody: largestAnswer, unixSocket: path)
        let ended = TransferGroup.send(request)
        return ended.failure.map { .failure(Fault(text: $0)) } ?? .success(ended)
    }

    /// The authority of the URL, and the path of a unix socket. A gateway that listens on all addresses is asked on the loopback one.
    static func target(_ address: SocketAddress) -> (host: String, unixSocket: String?) {
        switch address {
        case .unix(let path): ("localhost", path)
        case .ip(let ip, let port, _) where ip.isUnspecified: (ip.isIPv4 ? "127.0.0.1:\(port)" : "[::1]:\(port)", nil)
        case .ip: (address.description, nil)
        }
    }
}
