internal import Fetch
internal import Settings
internal import Transport
internal import Wire

/// The addresses of an upstream that get no requests now, as the gateway that runs with this configuration says on `/readyz` of its admin
/// address. Without one there is nothing to say.
enum AddressDiagnosis {
    private static let connectMilliseconds = 300
    private static let totalMilliseconds = 1_000

    /// Such as `127.0.0.1:9001: ejected until …`.
    static func find(upstream name: String, _ configuration: GatewayConfiguration) -> [String] {
        for listener in configuration.settings.adminListeners {
            guard case .ip(let address, let port, _) = listener.address, port > 0, !listener.expectsProxyHeader else { continue }
            let isAny = address == IPAddress(v4: 0) || address == IPAddress(high: 0, low: 0)
            let host = isAny ? "127.0.0.1" : address.text
            guard let body = ask("http://\(host.contains(":") ? "[\(host)]" : host):\(port)/readyz") else { continue }
            return reasons(body, prefix: "upstream \(name) ")
        }
        return []
    }

    private static func ask(_ url: String) -> [UInt8]? {
        let request = HTTPTransfer(
            url: url, connectMilliseconds: connectMilliseconds, totalMilliseconds: totalMilliseconds, largestBody: 1 << 20)
        guard let group = TransferGroup(), group.start(0, request) else { return nil }
        while true {
            guard let ended = group.wait(milliseconds: 100).first else { continue }
            return ended.failure == nil ? ended.body : nil
        }
    }

    /// The reasons of the checks whose names begin with `prefix`; none if the text is something else.
    static func reasons(_ body: [UInt8], prefix: String) -> [String] {
        var reader = JSONReader(body.rawBytes)
        var reasons: [String] = []
        var (key, name) = ("", "")
        do throws(JSONFault) {
            while true {
                switch try reader.next() {
                case .end: return reasons
                case .key(let text): key = reader.string(text)
                case .string(let text):
                    if key == "name" { name = reader.string(text) }
                    if key == "reason", name.hasPrefix(prefix) { reasons.append("\(name.dropFirst(prefix.count)): \(reader.string(text))") }
                case .beginObject: name = ""
                case .endObject, .beginArray, .endArray, .number, .bool, .null: break
                }
            }
        } catch {
            return []
        }
    }
}
