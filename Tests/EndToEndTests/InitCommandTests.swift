import Foundation
import Glibc
import TestThreads
import Testing

/// `tollgate init`: its file is accepted by `check`, starts a gateway, and lets the right tokens in.
@Suite(.ownThread) struct InitCommandTests {
    /// Answers the questions on a terminal: waits for each prompt, then types the next answer; prints what the terminal showed.
    private static let typist = """
        import os, pty, select, sys
        answers = sys.stdin.read().split("\\n")
        child, terminal = pty.fork()
        if child == 0:
            os.execv(sys.argv[1], sys.argv[1:])
        shown, seen = b"", 0
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
            if answers and shown[seen:].endswith(b": "):
                seen = len(shown)
                os.write(terminal, (answers.pop(0) + "\\n").encode())
        sys.stdout.write(shown.decode())
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """

    @Test func fiveAnswersOnATerminalMakeAFileForItsOwnerAlone() throws {
        let folder = try Folder()
        let file = folder.file("new/tollgate.env")
        let answers = ["ftp://wrong", "http://127.0.0.1:9001", "password", "firebase", "My App", "my-app", "", ""]
        let outcome = try run(
            "python3", ["-c", Self.typist, try Tollgate.binary.get(), "init", file], input: answers.joined(separator: "\n"))
        #expect(outcome.code == 0, "\(outcome)")
        for text in [
            "5/5 The URL under which clients reach the gateway", "1/5 The URL of your API [http://127.0.0.1:9001]: ",
            "\"ftp://wrong\" is no address of an upstream", "is no id of a Firebase project",
            "tollgate serve --env-file \(file)", "token mint --sub ada --env-file \(file)", "The configuration is good",
        ] { #expect(outcome.output.contains(text), "\(text) in \(outcome.output)") }
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let check = try Tollgate.run(["check", "--env-file", file])
        #expect(check.code == 0 && check.output.contains("https://securetoken.google.com/my-app"), "\(check)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.file("new")) == ["tollgate.env"])
    }

    @Test func withoutATerminalItAsksForOptions() throws {
        let folder = try Folder()
        let none = try Tollgate.run(["init", folder.file("a.env")])
        #expect(none.code == 2 && none.complaints.contains("standard input is no terminal, answer them by options like --upstream URL"))
        for (words, complaint) in [
            (["--contract", "password"], "`init` needs --upstream URL"),
            (["--upstream", "http://h", "--tenant", "x"], "--tenant needs --issuer beside it"),
            (
                ["--upstream", "http://h", "--issuer", "clerk", "--tenant", "a.b", "--audience", "x"],
                "--audience does not go with --issuer clerk"
            ),
            (["--upstream", "http://h", "--issuer", "auth0", "--tenant", "a.b"], "`init` needs --audience"),
            (
                ["--upstream", "http://h", "--contract", "password", "--issuer", "cognito", "--tenant", "eu-west-1_A", "--audience", "c"],
                "--issuer: \"cognito\" cannot stand beside a sign-in API"
            ),
            (["--upstream", "http://h", "--contract", "provider"], "`init` needs --apple-client-ids IDS"),
            (
                ["--upstream", "http://h", "--contract", "password", "--google-client-ids", "a"],
                "--google-client-ids needs --contract provider beside it"
            ),
            (
                ["--upstream", "http://h", "--tls-cert", "a", "--tls-key", "b", "--public-url", "http://h"],
                "--tls-cert needs an https URL as --public-url"
            ),
            (
                ["--upstream", "http://h", "--tls-cert", "a", "--tls-key", "b", "--trusted-proxies", "::1"],
                "--trusted-proxies does not go with --tls-cert"
            ),
            (["--upstream", "http://h", "--redis", "x"], "--redis: is no URL of a Redis"),
            (["--upstream", "http://h", "--tls-cert", "missing.crt", "--tls-key", "missing.key"], "--tls-key: cannot read "),
            (["--upstream", "ftp://h"], "--upstream: \"ftp://h\" is no address of an upstream"),
        ] {
            let outcome = try Tollgate.run(["init", folder.file("a.env")] + words)
            #expect(outcome.code == 2 && outcome.complaints.contains(complaint), "\(words): \(outcome)")
        }
        #expect(!FileManager.default.fileExists(atPath: folder.file("a.env")))
    }

    @Test func aFileStaysUnlessItIsForced() throws {
        let folder = try Folder()
        try folder.write("a.env", "# mine\n")
        let words = ["init", folder.file("a.env"), "--upstream", "http://127.0.0.1:9001"]
        let refused = try Tollgate.run(words)
        #expect(refused.code == 1 && refused.complaints.contains("exists already and stays as it is; --force replaces it"))
        #expect(try folder.read("a.env") == "# mine\n")
        let first = try Tollgate.run(words + ["--force", "--json"])
        #expect(first.code == 0 && first.output.contains(#""next":["tollgate serve --env-file "#), "\(first)")
        let before = try folder.read("a.env")
        #expect(try Tollgate.run(words + ["--force"]).code == 0)
        // Secrets are new each time.
        #expect(try folder.read("a.env") != before)
        let away = try Tollgate.run(["init", folder.file("a.env") + "/b.env", "--upstream", "http://h"])
        #expect(away.code == 1 && away.complaints.contains("a.env"), "\(away)")
    }

    @Test func aForcedFileStaysReadableByTheServiceAndByNoStranger() throws {
        let folder = try Folder()
        let file = folder.file("a.env")
        let modes: [(before: mode_t, after: mode_t, readers: String)] = [
            (0o640, 0o640, "you and the group "), (0o644, 0o640, "you and the group "), (0o600, 0o600, "you alone"),
        ]
        for (before, after, readers) in modes {
            try folder.write("a.env", "# mine\n")
            // Root may give a file to any group.
            let group = geteuid() == 0 ? 4242 : getegid()
            #expect(chown(file, geteuid(), group) == 0 && chmod(file, before) == 0)
            let outcome = try Tollgate.run(["init", file, "--force", "--upstream", "http://127.0.0.1:9001"])
            #expect(outcome.code == 0 && outcome.output.contains("is written, readable by \(readers)"), "\(outcome)")
            var status = stat()
            #expect(stat(file, &status) == 0)
            #expect(status.st_mode & 0o777 == after && status.st_gid == group)
        }
    }

    /// Each provider's answers, the claims of its tokens, and how to spoil one of them.
    private static let providers: [(words: String, key: IssuerKey.Kind, claims: String, right: String, wrong: String)] = [
        (
            "auth0 --tenant example.eu.auth0.com --audience https://api.example.org", .rs256,
            #""iss":"https://example.eu.auth0.com/","sub":"auth0|1","aud":["https://api.example.org","https://example.eu.auth0.com/userinfo"],"azp":"c","scope":"openid""#,
            "https://api.example.org", "https://other.example.org"
        ),
        (
            "cognito --tenant eu-west-1_AbCdEf123 --audience 1client", .rs256,
            #""iss":"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEf123","sub":"u","client_id":"1client","token_use":"access","username":"u""#,
            "1client", "2client"
        ),
        (
            "firebase --tenant my-app", .rs256,
            #""iss":"https://securetoken.google.com/my-app","sub":"u","aud":"my-app","user_id":"u","auth_time":1,"firebase":{"identities":{},"sign_in_provider":"password"}"#,
            #""aud":"my-app""#, #""aud":"other""#
        ),
        (
            "supabase --tenant abcdefghijklmnopqrst", .es256,
            #""iss":"https://abcdefghijklmnopqrst.supabase.co/auth/v1","sub":"u","aud":"authenticated","role":"authenticated","session_id":"s","is_anonymous":false"#,
            #""aud":"authenticated""#, #""aud":"anon""#
        ),
        (
            "clerk --tenant example-1.clerk.accounts.dev", .rs256,
            #""iss":"https://example-1.clerk.accounts.dev","sub":"user_1","sid":"sess_1","azp":"https://app.example.org","fva":[1,-1],"v":2"#,
            "example-1", "example-2"
        ),
        (
            "keycloak --tenant https://sso.example.org/realms/main", .rs256,
            #""iss":"https://sso.example.org/realms/main","sub":"u","aud":["account"],"typ":"Bearer","azp":"app","realm_access":{"roles":[]}"#,
            #"["account"]"#, #"["other"]"#
        ),
    ]

    @Test(arguments: providers.indices)
    func tokensOfTheIssuerPassAndOthersDoNot(_ index: Int) throws {
        let provider = Self.providers[index]
        let folder = try Folder()
        let words =
            ["init", folder.file("a.env"), "--upstream", "http://127.0.0.1:9001", "--issuer"]
            + provider.words.split(separator: " ").map(String.init)
        let written = try Tollgate.run(words)
        #expect(written.code == 0 && written.complaints == "", "\(written)")
        #expect(try Tollgate.run(["check", "--env-file", folder.file("a.env")]).code == 0)

        // The file as it is, but for addresses of this machine.
        let (upstream, key) = (try Upstream(), try IssuerKey(provider.key, kid: "1"))
        try folder.write("keys.json", try keySet(key))
        let text = try folder.read("a.env").replacingOccurrences(of: "http://127.0.0.1:9001", with: upstream.url)
            .replacingOccurrences(of: "=127.0.0.1:8000", with: "=127.0.0.1:0").replacingOccurrences(
                of: "=127.0.0.1:9090", with: "=127.0.0.1:0"
            )
            .replacing(/jwks=[^ ]+/, with: "jwks=\(folder.file("keys.json"))")
        let gateway = try Gateway(text, folder: folder)
        func status(_ claims: String) throws -> Int {
            let token = try key.token("{\(claims),\"iat\":\(unixNow),\"exp\":\(unixNow + 300)}")
            return try gateway.ask("GET /x", ["Authorization: Bearer \(token)"]).status
        }
        #expect(try status(provider.claims) == 200)
        #expect(try [401, 403].contains(status(provider.claims.replacingOccurrences(of: provider.right, with: provider.wrong))))
        #expect(try gateway.ask("GET /x").status == 401)
    }

    @Test func theHelpShowsSixExamplesThatAreGood() throws {
        let help = try Tollgate.run(["init", "--help"]).output
        let examples = help.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { $0.hasPrefix("tollgate init") }
        #expect(examples.count == 6)
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("api", "DNS:api.example.org")
        for example in examples {
            var words = ["init", folder.file("x.env"), "--force"]
            for word in example.split(separator: " ").dropFirst(2) where word != "/etc/tollgate/tollgate.env" {
                words.append(word.hasPrefix("/etc/ssl/") ? folder.file(URL(filePath: String(word)).lastPathComponent) : String(word))
            }
            let outcome = try Tollgate.run(words)
            #expect(outcome.code == 0, "\(example): \(outcome)")
        }
    }
}
