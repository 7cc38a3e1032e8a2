import Testing

@testable import Settings
@testable import tollgate

@Suite struct ArgumentsTests {
    private func parse(_ line: String) throws(UsageFault) -> Arguments {
        try Arguments(parsing: line.split(separator: " ").map(String.init))
    }

    @Test func aCommandLineIsParsedIntoCommandOperandsAndOptions() throws {
        let found = try parse("explain GET --token T http://h/p --from=1.2.3.4 --json --env-file a --env-file b")
        #expect(found.command.name == "explain")
        #expect(found.operands == ["GET", "http://h/p"])
        #expect(found.value("token") == "T")
        #expect(found.value("from") == "1.2.3.4")
        #expect(found.has("json"))
        #expect(found.values("env-file") == ["a", "b"])
    }

    @Test func commandsOfTwoWordsAndHelpInAnyPlaceAreKnown() throws {
        #expect(try parse("token mint --sub a").command.name == "token mint")
        #expect(try parse("keys rotate").command.name == "keys rotate")
        #expect(try parse("--help").command.name == "help")
        #expect(try parse("--version").command.name == "version")
        #expect(try parse("token mint --help").has("help"))
        #expect(try parse("explain -h").has("help"))
        #expect(try parse("token --help").operands == ["token"])
        #expect(try parse("token inspect -").operands == ["-"])
        #expect(try parse("token inspect -- --x").operands == ["--x"])
    }

    static let bad: [(String, String)] = [
        ("", "no command is given, `tollgate help` lists them"),
        ("chekc", #""chekc" is no command, the nearest is `check`"#),
        ("tokn mint", #""tokn mint" is no command, the nearest is `token mint`"#),
        ("keys", "`keys` needs list, rotate or jwks after it"),
        ("key --env-file a.env", "`key` needs create, list or revoke after it"),
        (
            "user",
            "`user` needs list, show, create, import, set-tier, set-attributes, revoke, ban, unban, reset-factors, merge-done, remove-passkey or delete after it"
        ),
        ("user lst", #""user lst" is no command, the nearest is `user list`"#),
        ("user list x", #""x" is one word too many for `user list`"#),
        ("user show", "`user show` needs USER after it"),
        ("user set-tier ada@example.org", "`user set-tier` needs TIER after it"),
        ("user create --email a@x --password secret", #""--password" is no option of `user create`, the nearest is --password-hash"#),
        ("actor grant ada@example.org team", "`actor grant` needs ID after it"),
        ("check --jsn", #""--jsn" is no option of `check`, the nearest is --json"#),
        ("check -j", #""-j" is no option of `check`, the nearest is --json"#),
        ("check --json=1", "--json takes no value, write it alone"),
        ("check --json --json", "--json is given twice, keep one of them"),
        ("check --env-file", "--env-file needs a value, write --env-file FILE"),
        ("check x", #""x" is one word too many for `check`"#),
        ("explain GET", "`explain` needs URL after it"),
        ("token mint", "`token mint` needs --sub ID"),
        ("echo", "`echo` needs --listen ADDRESS"),
    ]

    @Test(arguments: bad) func usageErrorsSayWhatWouldBeRight(_ line: String, _ message: String) {
        #expect(throws: UsageFault.self) { try parse(line) }
        do {
            _ = try parse(line)
        } catch {
            #expect(error.message == message)
        }
    }

    @Test(arguments: [("rout", "routes"), ("setings", "settings"), ("chekc", "check")])
    func anUnknownTopicOfHelpIsAnsweredWithTheNearest(_ topic: String, _ nearest: String) {
        #expect { try CommandHelp.text([topic]) } throws: {
            ($0 as? UsageFault)?.message == "\"\(topic)\" is no topic, the nearest is `\(nearest)`"
        }
    }

    @Test func helpOnASettingHasTheKeysOfItsLine() throws {
        let help = try CommandHelp.text(["passkeys"])
        #expect(help.hasPrefix("TOLLGATE_PASSKEY\n    The domain of passkeys: rp-id=") && help.contains("\n    origins=    "))
        let (exact, routes) = (try CommandHelp.text(["TOLLGATE_PASSKEY"]), try CommandHelp.text(["routes"]))
        #expect(exact == help)
        for key in ["TOLLGATE_PASSKEY", "rp-id", "TOLLGATE_ROUTE_<NAME>", "factor", "TOLLGATE_DELETION", "grace"] {
            #expect(routes.contains("\(key)="), "\(key)")
        }
    }

    @Test func everyCommandHasHelpWithAllItsOptions() throws {
        for command in Command.all {
            #expect(CommandHelp.overview.contains("tollgate \(command.name)"))
            for option in command.options { #expect(CommandHelp.text(command).contains("--\(option.name)")) }
            let asked = try CommandHelp.text([command.name])
            #expect(asked == (command.name == "settings" ? SettingsReference.plain : CommandHelp.text(command)))
        }
    }
}
