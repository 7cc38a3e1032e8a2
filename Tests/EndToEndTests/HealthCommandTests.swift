import Foundation
import TestThreads
import Testing

/// `tollgate health`, as a probe calls it.
@Suite(.ownThread) struct HealthCommandTests {
    /// The address is fixed by a unix socket, for the command must know it.
    private func settings(_ folder: Folder, _ more: String = "") -> String {
        "TOLLGATE_ADMIN_LISTEN=unix:\(folder.file("admin"))\n\(more)"
    }

    @Test func aReadyGatewayIsHealthyUntilItEnds() throws {
        let folder = try Folder()
        let gateway = try Gateway(settings(folder), folder: folder)
        let ready = try gateway.command(["health"])
        #expect(ready.code == 0 && ready.output == "ready" && ready.complaints == "")
        let json = try gateway.command(["health", "--json"])
        #expect(json.code == 0 && json.output.hasPrefix(#"{"status":"ready""#))
        #expect(try gateway.stop() == 0)
        let ended = try gateway.command(["health"])
        #expect(ended.code == 1 && ended.complaints.contains("no gateway answers at unix:\(folder.file("admin")): "))
    }

    @Test func aDegradedGatewayIsHealthyAndSaysWhy() throws {
        let folder = try Folder()
        let gateway = try Gateway(settings(folder, "REDIS_URL=unix:\(folder.file("nowhere"))"), folder: folder)
        let outcome = try gateway.command(["health"])
        #expect(outcome.code == 0, "\(outcome)")
        #expect(outcome.output.hasPrefix("degraded\nredis: degraded, "), "\(outcome.output)")
    }

    @Test(arguments: [
        ("", "TOLLGATE_ADMIN_LISTEN is empty"), ("127.0.0.1:0", "TOLLGATE_ADMIN_LISTEN leaves the port to the system"),
    ])
    func anAddressThatCannotBeAskedIsNamed(_ address: String, _ sentence: String) throws {
        let folder = try Folder()
        try folder.write("a.env", "TOLLGATE_ADMIN_LISTEN=\(address)\nTOLLGATE_DATA_DIR=\(folder.path)\n")
        let outcome = try Tollgate.run(["health", "--env-file", folder.file("a.env")])
        #expect(outcome.code == 2 && outcome.complaints.contains(sentence))
    }

    @Test func anotherServerIsNoGateway() throws {
        let upstream = try Upstream()
        let folder = try Folder()
        try folder.write("a.env", "TOLLGATE_ADMIN_LISTEN=127.0.0.1:\(upstream.port)\nTOLLGATE_DATA_DIR=\(folder.path)\n")
        let outcome = try Tollgate.run(["health", "--env-file", folder.file("a.env")])
        #expect(outcome.code == 1 && outcome.complaints.contains("it is no admin listener of Tollgate"))
    }
}
