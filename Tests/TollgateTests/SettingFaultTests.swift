import Gate
import Storage
import Testing
import Wire

@testable import Settings
@testable import tollgate

/// A line as an operator might write it, and just what `tollgate check` says of it.
@Suite struct SettingFaultTests {
    @Test func allFaultsAreReportedInReadingOrder() {
        let loaded = load(
            [("one.env", "TOLLGATE_WORKERS=x\nTOLLGATE_LOGG=info"), ("two.env", "\nTOLLGATE_LOG=x\n" + oneRoute)],
            environment: [("TOLLGATE_TOKEN_CACHE", "x")])
        #expect(
            loaded.findings.faults.map(\.text) == [
                #"one.env:1: TOLLGATE_WORKERS: "x" is no whole number, write one from 1 to 1024"#,
                "one.env:2: TOLLGATE_LOGG: is no setting, the nearest is TOLLGATE_LOG",
                #"two.env:2: TOLLGATE_LOG: "x" is not known, write debug, info, warning or error"#,
                #"environment: TOLLGATE_TOKEN_CACHE: "x" is no whole number, write one from 0 to 16777216"#,
            ])
        #expect(loaded.configuration == nil)
    }

    @Test func noFaultRepeatsASecret() {
        let secret = "p4ssw0rd-hunter2"
        let texts = [
            "TOLLGATE_JWT_SECRET=\(secret)", "TOLLGATE_ADMIN_TOKEN='\(secret) x'", "REDIS_URL=redis://:\(secret)@h:x",
            "DATABASE_URL=mysql://u:\(secret)@h/d", "SMTP_URL=smtp://u:\(secret)@h", "TOLLGATE_ADMIN_TOKEN_CI=\(secret)",
            "TOLLGATE_ADMIN_TOKEN_CI='\(secret)=='", "TOLLGATE_ADMIN_TOKEN_CI='token=\(secret) scope=tier'",
        ]
        for text in texts {
            let findings = load(text + "\n" + oneRoute).findings
            let said = (findings.faults + findings.warnings).map(\.text)
            #expect(!said.isEmpty)
            #expect(!said.joined().contains(secret), "\(said)")
        }
    }

    @Test func ratesAndTimesOfAccountsAreRead() {
        #expect(load(oneRoute).partial.settings.signUpLimit.text == "300/h+burst=100")
        #expect(load("TOLLGATE_SMS_BUDGET=5/d\n" + oneRoute).partial.settings.smsBudget.text == "5/d")
        #expect(load("TOLLGATE_TIER_GRACE=3d\n" + oneRoute).partial.settings.tierGraceSeconds == 3 * 86_400)
    }

    @Test func theDatabaseOfTheLongerNameWins() {
        let settings = load(
            "DATABASE_URL=mysql://django\nTOLLGATE_DATABASE_URL=sqlite:///own\nTOLLGATE_DATABASE_SCHEMA=second\n" + oneRoute
        ).partial
        #expect(settings.database == .sqlite(path: "/own"))
        let direct =
            "TOLLGATE_KEY_SECRET=" + String(repeating: "s", count: 32) + "\nDATABASE_URL=postgres://a/d\nDATABASE_URL_DIRECT=sqlite:///x\n"
        let both = load(direct + "TOLLGATE_DATABASE_URL_DIRECT=postgres://b/d\nTOLLGATE_DATABASE_SCHEMA=second\n" + oneRoute)
        #expect(both.findings.faults.isEmpty && both.partial.directDatabase == .postgres(url: "postgres://b/d", schema: "second"))
    }

    @Test func aFileFullOfMistakesIsAnsweredInItsSize() {
        #expect(warnings(String(repeating: "X", count: 100_000) + "=x\n" + oneRoute) == [])
        let bad = String(repeating: "no setting\n", count: 40_000)
        #expect(EnvFile.parse(Array(bad.utf8), name: "f").findings.faults.count == 40_000)
        let same = (0..<2_000).map { "TOLLGATE_ROUTE_R\($0)=\"/x upstream=u\"" }.joined(separator: "\n")
        #expect(faults("TOLLGATE_UPSTREAM_U=http://h\n" + same).count == 1_999)
    }

    /// Texts that look like settings, with bits flipped and pieces swapped: an answer always comes.
    @Test func noSettingsTrap() throws {
        var random = SplitMix64(seed: 0x5E77)
        let texts = try SettingCase.documents.flatMap { try SettingCase.all($0).cases }.map(\.text) + [oneRoute]
        let lines = Set(texts.flatMap { $0.split(separator: "\n") }).sorted().map { Array($0.utf8) }
        for _ in 0..<1500 {
            var text: [UInt8] = []
            for _ in 0..<Int.random(in: 1...5, using: &random) { text += (lines.randomElement(using: &random) ?? []) + [10] }
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                let place = Int.random(in: 0..<text.count, using: &random)
                text[place] =
                    Bool.random(using: &random) ? UInt8.random(in: 0...255, using: &random) : (text.randomElement(using: &random) ?? 0)
            }
            let loaded = load(text.rawBytes.text)
            #expect((loaded.configuration == nil) == !loaded.findings.faults.isEmpty)
        }
    }
}
