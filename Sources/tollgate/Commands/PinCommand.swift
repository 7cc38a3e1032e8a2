internal import Admin
internal import Credentials
internal import System
internal import Wire

/// `tollgate pin`: the SPKI pins of certificates and public keys (RFC 7469 §2.4).
enum PinCommand {
    private static let largestFile = 1 << 20

    private struct Pin: Recorded {
        let file: String
        let key: PublicKeyPin

        static let record = Record<Self>([
            .has("pin", \.text), .has("file", \.file), .may("subject", \.key.certificate?.subject),
            .may("host_names", \.key.certificate?.hostNames), .may("expires_at", \.key.certificate?.expiresAt),
        ])

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
                let keys = try PublicKeyPin.all(in: text.rawBytes)
                if keys.isEmpty {
                    return .failed(
                        "\(file) has no certificate and no public key; it should be PEM text with -----BEGIN CERTIFICATE----- or -----BEGIN PUBLIC KEY-----"
                    )
                }
                pins += keys.map { Pin(file: file, key: $0) }
            } catch let fault as KeyFault {
                return .failed("\(file): \(fault.message)")
            } catch {
                return .failed("\(error)")
            }
        }
        guard json else { return describe(pins, now) }
        let record = Record<[Pin]>([.has("pins") { $0 }, .may("info_plist", snippet)])
        return .json { record.write(pins, &$0) }
    }

    private static func describe(_ pins: [Pin], _ now: WallTime) -> CommandResult {
        let rows = pins.map { pin in
            let names = pin.hostNames.isEmpty ? pin.key.certificate?.subject ?? "(bare key)" : pin.hostNames.joined(separator: " ")
            let expiry = pin.key.certificate.map { ISO8601.text($0.expiresAt) + ($0.expiresAt <= now ? " (expired)" : "") }
            return [pin.text, expiry ?? "", pin.file, names]
        }
        var text = CheckTable.table(["PIN", "EXPIRES", "FILE", "FOR"], rows)
        if let snippet = snippet(pins) {
            text += "\nFor the Info.plist of an iOS app:\n\n\(snippet)\n"
            text += "Also pin a backup key that is kept elsewhere (`tollgate pin` accepts PEM files of public keys):\n"
            text += "with a single pin, losing that key locks out every app.\n"
        }
        return CommandResult(output: text)
    }

    // MARK: Info.plist

    /// `NSPinnedDomains` with the pins of each host, and the bare keys as backups for all; nil without host names.
    @Sendable private static func snippet(_ pins: [Pin]) -> String? {
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

    /// The name of a domain in Apple's list, which has `NSIncludesSubdomains` in place of wildcards.
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
