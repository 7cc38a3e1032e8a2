internal import Credentials
internal import Transport
internal import Wire

/// `tollgate pin`: the public keys of certificates as apps pin them.
enum PinCommand {
    private static let largestFile = 1 << 20

    private struct Pin {
        let file: String
        let key: PinnedKey

        var text: String { "sha256/\(key.digest)" }
        var hostNames: [String] { key.certificate?.hostNames ?? [] }
    }

    static func run(_ files: [String], json: Bool, now: WallTime) -> CommandResult {
        guard !files.isEmpty else {
            return .failed("TOLLGATE_TLS_CERT names no certificate, set it or name PEM files: tollgate pin FILE…", exitCode: 2)
        }
        var pins: [Pin] = []
        for file in files {
            do {
                let text = try FileBytes.read(file, limit: largestFile)
                let keys = try PinnedKey.all(in: text.rawBytes)
                if keys.isEmpty { return .failed("\(file) holds no certificate and no public key; it should be PEM text with -----BEGIN CERTIFICATE----- or -----BEGIN PUBLIC KEY-----") }
                pins += keys.map { Pin(file: file, key: $0) }
            } catch let fault as KeyFault {
                return .failed("\(file): \(fault.message)")
            } catch {
                return .failed("\(error)")
            }
        }
        return json ? report(pins) : tell(pins, now)
    }

    private static func tell(_ pins: [Pin], _ now: WallTime) -> CommandResult {
        let rows = pins.map { pin in
            let names = pin.hostNames.isEmpty ? pin.key.certificate?.subject ?? "(a key by itself)" : pin.hostNames.joined(separator: " ")
            let expiry = pin.key.certificate.map { ISO8601.text($0.expiresAt) + ($0.expiresAt <= now ? " (over)" : "") }
            return [pin.text, expiry ?? "", pin.file, names]
        }
        var text = CheckTable.table(["PIN", "EXPIRES", "FILE", "FOR"], rows)
        if let snippet = snippet(pins) {
            text += "\nFor the Info.plist of an iOS app:\n\n\(snippet)\n"
            text += "Pin a second key too, kept in another place (`tollgate pin` takes PEM files of public keys as well):\n"
            text += "with one alone, losing it locks every app out.\n"
        }
        return CommandResult(output: text)
    }

    private static func report(_ pins: [Pin]) -> CommandResult {
        .json { json in
            json.beginObject()
            json.array("pins", pins) { json, pin in
                json.beginObject()
                json.field("pin", pin.text)
                json.field("file", pin.file)
                if let certificate = pin.key.certificate {
                    json.field("subject", certificate.subject)
                    json.array("host_names", certificate.hostNames) { $0.string($1) }
                    json.field("expires_at", ISO8601.text(certificate.expiresAt))
                }
                json.endObject()
            }
            json.optional("info_plist", snippet(pins))
            json.endObject()
        }
    }

    // MARK: Info.plist

    /// `NSPinnedDomains` with the keys of each host, and with those that came by themselves; nil if no host is named.
    private static func snippet(_ pins: [Pin]) -> String? {
        let domains = Set(pins.flatMap(\.hostNames).map(domain))
        guard !domains.isEmpty else { return nil }
        let entries = domains.sorted().map { name in
            let digests = pins.filter { $0.key.certificate == nil || $0.hostNames.map(domain).contains(name) }.map(\.key.digest)
            return entry(name, coversSubdomains: pins.contains { $0.hostNames.contains("*." + name) }, digests)
        }
        return """
            <key>NSAppTransportSecurity</key>
            <dict>
                <key>NSPinnedDomains</key>
                <dict>
            \(entries.joined(separator: "\n"))
                </dict>
            </dict>

            """
    }

    /// Apple's list has no wildcards: it names the domain and says that those below it count too.
    private static func domain(_ hostName: String) -> String {
        hostName.hasPrefix("*.") ? String(hostName.dropFirst(2)) : hostName
    }

    private static func entry(_ domain: String, coversSubdomains: Bool, _ digests: [String]) -> String {
        var seen: Set<String> = []
        let keys = digests.filter { seen.insert($0).inserted }.map { digest in
            """
                            <dict>
                                <key>SPKI-SHA256-BASE64</key>
                                <string>\(digest)</string>
                            </dict>
            """
        }
        let subdomains =
            """

                        <key>NSIncludesSubdomains</key>
                        <true/>
            """
        return """
                    <key>\(domain)</key>
                    <dict>\(coversSubdomains ? subdomains : "")
                        <key>NSPinnedLeafIdentities</key>
                        <array>
            \(keys.joined(separator: "\n"))
                        </array>
                    </dict>
            """
    }
}
