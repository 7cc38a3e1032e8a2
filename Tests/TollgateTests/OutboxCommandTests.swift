import Foundation
import Settings
import Testing
import Wire
import Workbench

@testable import Mail
@testable import tollgate

@Suite struct OutboxCommandTests {
    @Test func theCommandPrintsThemForPeopleAndForPrograms() throws {
        let folder = try TemporaryFolder()
        var configuration = try #require(load("").configuration)
        configuration.settings.dataDirectory = folder.path + "/data"
        #expect(OutboxCommand.run(configuration, json: false).output.contains("empty"))
        #expect(OutboxCommand.run(configuration, json: true).output == "[]\n")
        try Outbox(dataDirectory: configuration.settings.dataDirectory).add(
            OutboxEntry(
                OutgoingMessage(
                    id: "id", kind: "sign-up code", recipient: "ada@example.org", body: .sms("Enter this code:"),
                    secret: .code("123456"), usefulSeconds: 600),
                at: WallTime(seconds: 1)))
        let text = OutboxCommand.run(configuration, json: false).output
        #expect(text.hasPrefix("1970-01-01T00:00:01.000Z  sms to ada@example.org: sign-up code\n\n    Enter this code:\n"))
        let json = OutboxCommand.run(configuration, json: true).output
        let parsed = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: String]])
        #expect(parsed.map { $0["to"] } == ["ada@example.org"])
        #expect(parsed.first?["code"] == "123456")
        #expect(parsed.first?["kind"] == "sign-up code")
    }
}
