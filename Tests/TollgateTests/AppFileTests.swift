import Testing
import Wire
import Workbench

@testable import Credentials
@testable import HTTP
@testable import Settings
@testable import tollgate

/// The files of a domain for Apple and Google, and the origins of passkeys.
@Suite struct AppFileTests {
    private static let fingerprint = Array(repeating: "0a", count: 32).joined(separator: ":")
    private static let apps = """
        TOLLGATE_CONTRACTS=
        TOLLGATE_PASSKEY="rp-id=example.org origins=https://app.example.org"
        TOLLGATE_APP_NAME=Example
        TOLLGATE_IOS_APPS="ABCDE12345.org.example.app ABCDE12345.org.example.clip"
        TOLLGATE_ANDROID_APPS="package=org.example.app sha256=\(fingerprint) sha256=\(fingerprint.replacing("0a", with: "FF")) package=b sha256=\(fingerprint)"

        """

    private func settings(_ text: String) throws -> Configuration { try #require(load(text + oneRoute).configuration).settings }

    @Test func theFilesNameTheAppsAsAppleAndGoogleWantThem() throws {
        let made = try settings(Self.apps + "TOLLGATE_IOS_LINKS=\"/invite/* /a\"\n")
        let (plain, upper) = (try settings(Self.apps), Self.fingerprint.uppercased())
        let apps = #"["ABCDE12345.org.example.app","ABCDE12345.org.example.clip"]"#
        let relation = #""relation":["delegate_permission/common.get_login_creds","delegate_permission/common.handle_all_urls"]"#
        let rows: [(LocalResponse, String)] = [
            (AppFiles.apple(plain), #"{"webcredentials":{"apps":\#(apps)}}"#),
            (
                AppFiles.apple(made),
                #"{"webcredentials":{"apps":\#(apps)},"applinks":{"details":[{"appIDs":\#(apps),"components":[{"/":"/invite/*"},{"/":"/a"}]}]}}"#
            ),
            (
                AppFiles.google(plain),
                #"[{\#(relation),"target":{"namespace":"android_app","package_name":"org.example.app","sha256_cert_fingerprints":["\#(upper)","\#(upper.replacing("0A", with: "FF"))"]}},"#
                    + #"{\#(relation),"target":{"namespace":"android_app","package_name":"b","sha256_cert_fingerprints":["\#(upper)"]}}]"#
            ),
        ]
        for (answer, body) in rows {
            #expect(String(decoding: answer.body, as: UTF8.self) == body && answer.fields.first?.value == "application/json")
        }
    }

    @Test func originsOfPasskeysAreThePagesAndTheAndroidApps() throws {
        let made = try settings(Self.apps)
        let hashes = [10, 255].map { "android:apk-key-hash:" + Base64URL.encode([UInt8](repeating: $0, count: 32).rawBytes) }
        #expect(made.passkeyOrigins == Set(["https://example.org", "https://app.example.org"] + hashes))
        #expect(made.passkey?.rpName == "Example")
        #expect(try settings(Self.apps.replacing("TOLLGATE_APP_NAME=Example", with: "")).passkey?.rpName == "example.org")
        let pages = [
            ("https://app.example.org/", "https://app.example.org"), ("https://example.org:8443", "https://example.org:8443"),
            ("http://a.example.org", nil), ("https://badexample.org", nil), ("https://example.org.evil.test", nil),
        ]
        for (url, origin) in pages {
            let own = try settings("TOLLGATE_ACCOUNT=/account\nTOLLGATE_PASSKEY=rp-id=example.org\nTOLLGATE_PUBLIC_URL=\(url)\n")
                .passkeyOrigins
            #expect(own == Set(["https://example.org", origin].compactMap(\.self)), "\(url)")
        }
        #expect(try settings("TOLLGATE_CONTRACTS=\n").passkeyOrigins.isEmpty)
    }

    @Test func theFilesAreMountedWithTheirApps() throws {
        for (text, names) in [(Self.apps, ["own-ios-apps", "own-android-apps"]), ("TOLLGATE_CONTRACTS=\n", [])] {
            let configuration = try #require(load(text + oneRoute).configuration)
            let free = try LocalEndpoint.free(beside: [], configuration.settings, configuration.contracts)
            #expect(free.map(\.name).filter { $0.hasSuffix("apps") } == names)
        }
    }

    @Test func doctorReadsThemAsAppleAndGoogleDo() throws {
        let made = try settings(Self.apps)
        let (files, json) = (AppFile.all(made), "application/json; charset=utf-8")
        #expect(
            files.map(\.url) == [
                "https://example.org/.well-known/apple-app-site-association", "https://example.org/.well-known/assetlinks.json",
            ])
        let bodies = [AppFiles.apple(made).body, AppFiles.google(made).body]
        let other = try settings(Self.apps.replacing("package=b", with: "package=c").replacing("clip", with: "other"))
        let others = [AppFiles.apple(other).body, AppFiles.google(other).body]
        for index in 0..<2 {
            let rows: [(status: Int, type: String?, body: [UInt8], says: String)] = [
                (200, json, bodies[index], index == 0 ? "names 2 apps as Apple" : "names 3 apps as Google"),
                (404, json, [], "answered with 404"),
                (301, json, bodies[index], "follows no redirect"), (200, "text/html", bodies[index], "wants application/json"),
                (200, nil, bodies[index], "wants application/json"), (200, json, [UInt8](repeating: 32, count: 131_073), "128 KiB"),
                (200, json, bodies[index].dropLast(), "is not JSON"), (200, json, [], "is not JSON"),
                (200, json, Array("{}".utf8), "lacks "),
                (200, json, others[index], index == 0 ? "lacks ABCDE12345.org.example.clip:" : "lacks b 0A:0A"),
                (
                    200, json, Array(String(decoding: bodies[index], as: UTF8.self).replacing("get_login_creds", with: "x").utf8),
                    index == 0 ? "names 2" : "lacks b"
                ),
            ]
            for row in rows {
                let found = files[index].judgement(row.status, contentType: row.type, row.body)
                #expect(found.text.contains(row.says) && (found.level == .ok) == row.says.hasPrefix("names"), "\(found.text)")
            }
        }
        #expect(AppFile.all(try settings("TOLLGATE_CONTRACTS=\n")).isEmpty)
    }
}
