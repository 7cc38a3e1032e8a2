import Credentials
import Mail
import Testing
import Workbench

@testable import Settings
@testable import tollgate

/// Relative paths in env files and in the process environment.
@Suite struct RelativePathTests {
    private static let secret = sharedSecret

    private func load(_ text: String, name: String = "etc/gate/a.env", files: [String: [UInt8]] = [:]) -> LoadedConfiguration {
        TollgateTests.load(text + "\n" + oneRoute, name: name, files: files)
    }

    @Test func aRelativePathInAnEnvFileBeginsAtTheFolderOfTheFile() {
        let settings = load(
            """
            TOLLGATE_DATA_DIR=../data
            TOLLGATE_TLS_CERT="one.crt /abs/two.crt"
            TOLLGATE_TLS_KEY="./one.key /abs/two.key"
            TOLLGATE_TLS_CLIENT_CA=ca.pem
            TOLLGATE_UPSTREAM_P="https://p.test tls-ca=p.pem"
            """
        ).partial.settings
        #expect(settings.dataDirectory == "etc/gate/../data")
        #expect(settings.tlsPairs.map(\.certificate) == ["etc/gate/one.crt", "/abs/two.crt"])
        #expect(settings.tlsPairs.map(\.key) == ["etc/gate/one.key", "/abs/two.key"])
        #expect(settings.tlsClientAuthority == "etc/gate/ca.pem")
        #expect(settings.upstreams.compactMap(\.authorityFile) == ["etc/gate/p.pem"])
    }

    @Test func secretsAndKeySetsAreReadThere() {
        let jwks = Array(#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}"#.utf8)
        let loaded = load(
            """
            TOLLGATE_KEY_SECRET_FILE=key-secret
            TOLLGATE_TRUST_A="issuer=a audience=x jwks=a.json"
            TOLLGATE_TRUST_B="issuer=b audience=x secret-file=b-secret algorithms=HS256"
            """, files: ["etc/gate/key-secret": Self.secret, "etc/gate/a.json": jwks, "etc/gate/b-secret": Self.secret])
        #expect(loaded.findings.faults == [])
        #expect(loaded.partial.settings.keySecret == Self.secret)
        #expect(loaded.partial.settings.trusts.map(\.keySource) == [.file("etc/gate/a.json"), .secret(Self.secret)])
    }

    @Test func aFileOfTheMailServersCABeginsThereToo() throws {
        let mail = load("SMTP_URL=smtps://mail.test?tls-ca=mail.pem\nTOLLGATE_MAIL_FROM=a@b.test").partial.mail.mail
        #expect(try #require(mail).server.authorityFile == "etc/gate/mail.pem")
    }

    @Test func aPathOfTheEnvironmentAndTheDefaultBeginAtTheWorkingDirectory() {
        #expect(load("").partial.settings.dataDirectory == "./data")
        let loaded = TollgateTests.load(
            [("etc/gate/a.env", "TOLLGATE_DATA_DIR=in-file\n" + oneRoute)], environment: [("TOLLGATE_DATA_DIR", "here")])
        #expect(loaded.partial.settings.dataDirectory == "here")
        #expect(load("TOLLGATE_DATA_DIR=here", name: "a.env").partial.settings.dataDirectory == "here")
    }

    @Test func aFaultNamesThePathThatWasLookedAt() {
        let faults = load("TOLLGATE_TRUST_A=\"issuer=a audience=x jwks=a.json\"").findings.faults
        #expect(
            faults.map(\.message) == [
                #""jwks=etc/gate/a.json" cannot be read (no such file or directory), give a URL or the path of a readable file"#
            ])
    }
}
