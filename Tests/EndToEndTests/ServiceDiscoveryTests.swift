import Foundation
import Glibc
import TestServers
import TestThreads
import Testing

/// Upstreams by DNS: SRV records, several addresses, and names whose addresses change, as the system's resolver has them. The gateway
/// has a resolv.conf(5) of its own, in a mount namespace of its own, which only root may make.
@Suite(.serialized, .ownThread, .enabled(if: mayMount)) struct ServiceDiscoveryTests {
    /// A name server at a loopback address of its own, at the port at which resolvers ask.
    private static func nameServer() throws -> NameServer {
        for _ in 0..<20 {
            let address = 0x7F00_0000 | UInt32.random(in: 0x01_0000...0xFE_FFFF)
            do { return try NameServer(address: address, port: 53) } catch is NameServer.Fault { continue }
        }
        throw Fault("no address for a name server")
    }

    private final class Place {
        let names: NameServer
        let gateway: Gateway

        init(_ names: NameServer, _ upstream: String, _ more: String...) throws {
            self.names = names
            let folder = try Folder()
            let address = [24, 16, 8, 0].map { "\(names.address >> $0 & 255)" }.joined(separator: ".")
            let file = try folder.write("resolv.conf", "nameserver \(address)\noptions timeout:5 attempts:2\n")
            gateway = try Gateway(
                """
                TOLLGATE_UPSTREAM_U="\(upstream)"
                TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
                TOLLGATE_DNS_REFRESH=1s
                \(more.joined(separator: "\n"))
                """, folder: folder,
                command: [
                    "unshare", "--mount", "bash", "-c", "mount --bind '\(file)' /etc/resolv.conf && exec \"$@\"", "private",
                ])
        }
    }

    private static let name = "_http._tcp.api.test"

    private static func named(_ name: String) throws -> Upstream {
        try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\(name)"))
    }

    /// How often each upstream answered.
    private func answers(_ gateway: Gateway, _ count: Int) throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for _ in 0..<count { counts[try gateway.ask("GET /x").text, default: 0] += 1 }
        return counts
    }

    @Test func servicesShareRequestsByWeightAndTheirHostIsTheDomain() throws {
        let (a, b, names) = (try Self.named("a"), try Self.named("b"), try Self.nameServer())
        names.change {
            $0.names[Self.name] = [.service(.init("a.test", a.port, weight: 3)), .service(.init("b.test", b.port, weight: 1))]
            $0.names["a.test"] = [.address("127.0.0.1")]
            $0.names["b.test"] = [.address("127.0.0.1")]
        }
        let place = try Place(names, "srv+http://\(Self.name)/base host=upstream")
        #expect(try answers(place.gateway, 40) == ["a": 30, "b": 10])
        #expect(a.requests.now.allSatisfy { $0["Host"] == "api.test" && $0.target == "/base/x" })
    }

    @Test func changesComeInAndNoRequestIsLost() throws {
        let go = Watched(false)
        let old = try Upstream { request, connection in
            if request.target == "/slow" { try go.wait(for: "the word", seconds: 60, until: { $0 }) }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold")
        }
        let (new, names) = (try Self.named("n"), try Self.nameServer())
        names.change {
            $0.names[Self.name] = [.service(.init("a.test", old.port))]
            $0.names["a.test"] = [.address("127.0.0.1")]
        }
        let place = try Place(names, "srv+http://\(Self.name)")
        let slow = try place.gateway.connect()
        try slow.send(requestHead("GET /slow"))
        try old.requests.wait(for: "the slow request") { $0.count == 1 }
        names.change { $0.names[Self.name] = [.service(.init("a.test", new.port))] }
        var texts: [String] = []
        try eventually("the new server") {
            let answer = try place.gateway.ask("GET /x")
            texts.append(answer.text)
            return answer.text == "n"
        }
        #expect(texts.dropLast().allSatisfy { $0 == "old" }, "every request on the way was answered")
        #expect(try answers(place.gateway, 5) == ["n": 5])
        go.change { $0 = true }
        #expect(try slow.answer().text == "old", "what is under way at a server that is gone from DNS ends there")

        // Silence, no such name and no records take nothing away.
        for failure in 0..<3 {
            let asked = names.questions
            names.change { zone in
                zone.isSilent = failure == 0
                zone.names[Self.name] = failure == 1 ? nil : failure == 2 ? [] : zone.names[Self.name]
            }
            try eventually("another look") { names.questions > asked + 1 }
            #expect(try answers(place.gateway, 3) == ["n": 3])
        }
        try place.gateway.waitForLog("the last known addresses stay in use")
        // A reload meanwhile keeps them, too.
        try place.gateway.reload(
            """
            TOLLGATE_UPSTREAM_U="srv+http://\(Self.name)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            TOLLGATE_ROUTE_MORE="/more upstream=u auth=none"
            TOLLGATE_DNS_REFRESH=1s
            """)
        #expect(try answers(place.gateway, 3) == ["n": 3])
        names.change { $0.names[Self.name] = [.service(.init("a.test", old.port))] }
        try eventually("the old server again") { try place.gateway.ask("GET /x").text == "old" }
    }

    @Test func aBackupServesWhileTheFirstPriorityCannot() throws {
        let (first, backup, names) = (try Self.named("f"), try Self.named("b"), try Self.nameServer())
        let gone = try Listening.refusing()
        names.change {
            $0.names[Self.name] = [
                .service(.init("a.test", first.port, priority: 1)), .service(.init("a.test", backup.port, priority: 2)),
            ]
            $0.names["a.test"] = [.address("127.0.0.1")]
        }
        let place = try Place(names, "srv+http://\(Self.name)")
        #expect(try answers(place.gateway, 10) == ["f": 10])
        names.change {
            $0.names[Self.name] = [
                .service(.init("a.test", gone.port, priority: 1)), .service(.init("a.test", backup.port, priority: 2)),
            ]
        }
        try eventually("the backup") { try place.gateway.ask("GET /x").text == "b" }
        #expect(try answers(place.gateway, 10) == ["b": 10])
    }

    @Test func aNameWithSeveralAddressesUsesThemAll() throws {
        let names = try Self.nameServer()
        let upstream = try Self.named("4")
        names.change { $0.names["api.test"] = [.address("127.0.0.1"), .address("::1")] }
        let place = try Place(names, "http://api.test:\(upstream.port)")
        // No server listens on ::1: requests that are sent there go to the other.
        #expect(try answers(place.gateway, 10) == ["4": 10])
        names.change { $0.names["api.test"] = [.address("127.0.0.9")] }
        try place.gateway.waitForLog("addresses changed")
        let line = place.gateway.process.complaints.now.first { $0.contains("addresses changed") } ?? ""
        #expect(line.contains("127.0.0.9:\(upstream.port)") && !line.contains("127.0.0.1:"))
    }

    @Test func aServiceThatIsNotThereYetIsFound() throws {
        let (upstream, names) = (try Self.named("a"), try Self.nameServer())
        let place = try Place(names, "srv+http://\(Self.name)")
        let answer = try place.gateway.ask("GET /x")
        #expect(answer.status == 503 && answer["Retry-After"] != nil)
        try place.gateway.waitForLog("a service has no servers")
        names.change {
            $0.names[Self.name] = [.service(.init("a.test", upstream.port))]
            $0.names["a.test"] = [.address("127.0.0.1")]
        }
        try eventually("the service") { try place.gateway.ask("GET /x").status == 200 }
    }
}
