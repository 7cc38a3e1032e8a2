import System
import TestThreads
import Testing
import Wire
import Workbench

@testable import tollgate

/// `tollgate pin` as a shell sees it.
@Suite(.ownThread) struct PinCommandTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func write(_ name: String, _ text: String) throws -> String {
        try FileBytes.write(Array(text.utf8), to: "\(folder.path)/\(name)")
        return "\(folder.path)/\(name)"
    }

    private func pin(_ words: String..., at seconds: Int64 = 1_800_000_000) -> CommandResult {
        let now = Moment(monotonic: moment(0), wall: WallTime(seconds: seconds))
        return CommandRunner(environment: [], now: now, readInput: { "" }).run(["pin"] + words)
    }

    private func configuration(certificate: String) throws -> String {
        let key = try write("leaf.key", PinFixtures.leafKey)
        return try write(
            "a.env",
            "TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_LISTEN_TLS=127.0.0.1:8443\nTOLLGATE_TLS_CERT=\(certificate)\nTOLLGATE_TLS_KEY=\(key)\n"
        )
    }

    @Test func everyCertificateOfTheConfigurationIsPinned() throws {
        let chain = try write("chain.crt", PinFixtures.leaf + PinFixtures.root)
        let result = pin("--env-file", try configuration(certificate: chain))
        #expect(result.exitCode == 0)
        #expect(result.errorOutput == "")
        let rows = result.output.split(separator: "\n").prefix(3).map { $0.split(separator: " ") }
        #expect(rows[1] == ["sha256/\(PinFixtures.leafPin)", "2126-10-28T19:27:00.000Z", "\(chain)", "api.example.com", "*.example.com"])
        #expect(rows[2].starts(with: ["sha256/\(PinFixtures.rootPin)", "2126-10-28T19:27:00.000Z", "\(chain)"]))
        #expect(rows[2].suffix(2).joined(separator: " ") == #"CN=Example Root,O=B\C3\A4ckerei"#)
    }

    @Test func theSnippetPinsEachHostAndTheBackupKey() throws {
        let leaf = try write("leaf.crt", PinFixtures.leaf)
        let backup = try write("backup.pem", PinFixtures.publicKey)
        let keys = """
                        <key>NSPinnedLeafIdentities</key>
                        <array>
                            <dict>
                                <key>SPKI-SHA256-BASE64</key>
                                <string>\(PinFixtures.leafPin)</string>
                            </dict>
                            <dict>
                                <key>SPKI-SHA256-BASE64</key>
                                <string>\(PinFixtures.publicKeyPin)</string>
                            </dict>
                        </array>
            """
        let snippet = """
            <key>NSAppTransportSecurity</key>
            <dict>
                <key>NSPinnedDomains</key>
                <dict>
                    <key>api.example.com</key>
                    <dict>
            \(keys)
                    </dict>
                    <key>example.com</key>
                    <dict>
                        <key>NSIncludesSubdomains</key>
                        <true/>
            \(keys)
                    </dict>
                </dict>
            </dict>

            """
        #expect(pin(leaf, backup).output.contains("\n" + snippet))
        // The same key twice is one pin.
        let twice = pin(leaf, backup, try write("old.pem", PinFixtures.publicKeyOldForm), leaf)
        #expect(twice.output.contains("\n" + snippet))
        let json = pin(leaf, "--json").output
        #expect(
            json.contains(
                #"{"pins":[{"pin":"sha256/\#(PinFixtures.leafPin)","file":"\#(leaf)","subject":"CN=api.example.com","host_names":["api.example.com","*.example.com"],"expires_at":"2126-10-28T19:27:00.000Z"}],"info_plist":"<key>NSApp"#
            ))
    }

    @Test func keysByThemselvesHaveAPinAndNoHost() throws {
        for text in [PinFixtures.publicKey, PinFixtures.publicKeyOldForm] {
            let file = try write("key.pem", text)
            #expect(
                pin(file).output.split(separator: "\n").last?.split(separator: " ")
                    == ["sha256/\(PinFixtures.publicKeyPin)", "\(file)", "(bare", "key)"])
            #expect(pin(file, "--json").output == #"{"pins":[{"pin":"sha256/\#(PinFixtures.publicKeyPin)","file":"\#(file)"}]}"# + "\n")
        }
    }

    @Test func anExpiredCertificateIsMarked() throws {
        let leaf = try write("leaf.crt", PinFixtures.leaf)
        #expect(pin(leaf, at: 4_949_000_000).output.contains("2126-10-28T19:27:00.000Z (expired)"))
        #expect(!pin(leaf).output.contains("(expired)"))
    }

    @Test func aPrivateKeyBesideACertificateIsPassedOver() throws {
        let both = try write("both.pem", PinFixtures.leafKey + PinFixtures.leaf)
        #expect(pin(both).output.split(separator: "\n")[1].hasPrefix("sha256/\(PinFixtures.leafPin) "))
    }

    @Test func filesWithoutAKeyAreNamed() throws {
        let gone = pin(folder.path + "/gone.pem")
        #expect(gone.exitCode == 1)
        #expect(gone.errorOutput == "tollgate: cannot read \(folder.path)/gone.pem: no such file or directory\n")
        for text in ["", "nothing", PinFixtures.leafKey] {
            let file = try write("none.pem", text)
            let result = pin(file)
            #expect(result.exitCode == 1)
            #expect(
                result.errorOutput
                    == "tollgate: \(file) has no certificate and no public key; it should be PEM text with -----BEGIN CERTIFICATE----- or -----BEGIN PUBLIC KEY-----\n"
            )
        }
        let broken = try write("broken.pem", PinFixtures.leaf + PinFixtures.leaf.replacing("MIIB", with: "AAAA"))
        #expect(pin(broken).errorOutput == "tollgate: \(broken): PEM block 2 is no certificate that can be read\n")
        let cut = try write("cut.pem", String(PinFixtures.leaf.dropLast(40)))
        #expect(pin(cut).exitCode == 1)
    }

    @Test func withoutACertificateThereIsNothingToPin() throws {
        let none = try write("b.env", "TOLLGATE_DATA_DIR=\(folder.path)\n")
        let result = pin("--env-file", none)
        #expect(result.exitCode == 2)
        #expect(result.errorOutput == "tollgate: TOLLGATE_TLS_CERT names no certificate, set it or name PEM files: tollgate pin FILE…\n")
        // Files that are named are read whatever the configuration says.
        let faulty = try write("c.env", "TOLLGATE_LOGS=x\n")
        #expect(pin(try write("leaf.crt", PinFixtures.leaf), "--env-file", faulty).exitCode == 0)
    }
}
