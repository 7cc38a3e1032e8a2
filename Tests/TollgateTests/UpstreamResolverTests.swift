import Gate
import Glibc
import Proxy
import Synchronization
import System
import Testing
import Threads
import Wire
import Workbench

@testable import Settings
@testable import tollgate

/// The resolution of upstreams' names, and unchanged upstreams on reload.
@Suite struct UpstreamResolverTests {
    /// A name server whose answers the test chooses: none at all is a fault.
    private final class Names: Sendable {
        let addresses = Mutex<[String]>([])

        var lookUp: UpstreamResolver.LookUp {
            { host, port throws(SystemFault) in
                let found = self.addresses.withLock { $0 }
                guard !found.isEmpty else { throw SystemFault("find the address of \(host)", reason: "nobody knows") }
                return found.compactMap { SocketAddress(parsing: "\($0):\(port)") }
            }
        }

        func answer(_ texts: String...) { addresses.withLock { $0 = texts } }
    }

    private func upstream(_ value: String) -> UpstreamDeclaration {
        load("TOLLGATE_UPSTREAM_U=\"\(value)\"").partial.settings.upstreams[0]
    }

    @Test func onlyChangedAddressesAreReported() throws {
        let (names, told) = (Names(), Mailboxes())
        names.answer("10.0.0.1", "10.0.0.2")
        let log = try ServerLog(Configuration())
        let resolver = try UpstreamResolver([upstream("http://back.test:80")], every: 30_000, log: log, lookUp: names.lookUp) {
            told.add("\($0) \($1.map(\.address.description))")
        }
        #expect(resolver.snapshots()[0].addresses.map(\.address.description) == ["10.0.0.1:80", "10.0.0.2:80"])
        #expect(resolver.lookAgain())
        #expect(told.all == [])
        names.answer("10.0.0.2", "10.0.0.3")
        #expect(resolver.lookAgain())
        #expect(told.all == [#"u ["10.0.0.2:80", "10.0.0.3:80"]"#])
        // A name server that is away takes nothing away, and is asked again soon.
        names.answer()
        #expect(!resolver.lookAgain())
        names.answer("10.0.0.2", "10.0.0.3")
        #expect(resolver.lookAgain())
        #expect(told.all.count == 1)
        log.close()
    }

    @Test func aNameThatHadNoAddressAtFirstGetsItLater() throws {
        let (names, told) = (Names(), Mailboxes())
        let log = try ServerLog(Configuration())
        let resolver = try UpstreamResolver([upstream("http://back.test:80")], every: 30_000, log: log, lookUp: names.lookUp) {
            told.add("\($0) \($1.map(\.address.description))")
        }
        #expect(resolver.snapshots()[0].addresses.isEmpty)
        names.answer("10.0.0.1")
        #expect(resolver.lookAgain())
        #expect(told.all == [#"u ["10.0.0.1:80"]"#])
        log.close()
    }

    @Test func eachBaseUrlKeepsItsHostAndItsPath() throws {
        let log = try ServerLog(Configuration())
        let declared = upstream("http://127.0.0.1:9001/one http://127.0.0.1:9002 unix:/run/app.sock host=upstream")
        let resolver = try UpstreamResolver([declared], every: 30_000, log: log) { _, _ in }
        let snapshot = resolver.snapshots()[0]
        #expect(snapshot.settings.sendsOwnHost)
        #expect(snapshot.addresses.map(\.authority) == ["127.0.0.1:9001", "127.0.0.1:9002", "localhost"])
        #expect(snapshot.addresses.map(\.pathPrefix) == ["/one", "", ""])
        log.close()
    }

    @Test func rotatedAnswersAreNoChange() throws {
        let (names, told) = (Names(), Mailboxes())
        names.answer("10.0.0.1", "10.0.0.2")
        let log = try ServerLog(Configuration())
        let resolver = try UpstreamResolver([upstream("http://back.test:80")], every: 30_000, log: log, lookUp: names.lookUp) { name, _ in
            told.add(name)
        }
        _ = resolver.snapshots()
        names.answer("10.0.0.2", "10.0.0.1")
        #expect(resolver.lookAgain())
        #expect(told.all == [])
        log.close()
    }

    @Test func aReloadDuringAnOutageTakesNoAddressAway() throws {
        let names = Names()
        names.answer("10.0.0.1")
        let log = try ServerLog(Configuration())
        let declared = [upstream("http://back.test:80")]
        let resolver = try UpstreamResolver(declared, every: 30_000, log: log, lookUp: names.lookUp) { _, _ in }
        _ = resolver.snapshots()
        names.answer()
        try resolver.prepare(declared, every: 30_000).apply()
        let after = resolver.snapshots()
        #expect(after[0].addresses.map(\.address.description) == ["10.0.0.1:80"])
        #expect(!resolver.lookAgain(), "and it is tried again soon")
        log.close()
    }

    /// The addresses of the configuration are older, and reach the workers after what is found meanwhile.
    @Test func aChangeDuringAReloadIsReportedAfterIt() throws {
        let (names, told) = (Names(), Mailboxes())
        names.answer("10.0.0.1")
        let log = try ServerLog(Configuration())
        let declared = [upstream("http://back.test:80")]
        let resolver = try UpstreamResolver(declared, every: 30_000, log: log, lookUp: names.lookUp) {
            told.add("\($1.map(\.address.description))")
        }
        _ = resolver.snapshots()
        let reload = try resolver.prepare(declared, every: 30_000)
        reload.apply()
        let adopted = resolver.snapshots()
        #expect(adopted[0].addresses.map(\.address.description) == ["10.0.0.1:80"])
        names.answer("10.0.0.2")
        #expect(resolver.lookAgain())
        #expect(told.all == [])
        reload.published()
        #expect(resolver.lookAgain())
        #expect(told.all == [#"["10.0.0.2:80"]"#])
        log.close()
    }

    @Test func aNameThatIsMissingAtTheStartIsLookedUpAgainSoon() throws {
        let names = Names()
        let log = try ServerLog(Configuration())
        let resolver = try UpstreamResolver([upstream("http://back.test:80")], every: 30_000, log: log, lookUp: names.lookUp) { _, _ in }
        _ = resolver.snapshots()
        #expect(resolver.firstPause == 5_000)
        names.answer("10.0.0.1")
        _ = resolver.snapshots()
        #expect(resolver.firstPause == 30_000)
        log.close()
    }

    /// With name servers that do not answer, each lookup takes many seconds.
    @Test func aStopWaitsForOneLookupAtMost() throws {
        final class Slow: Sendable {
            let begun = Atomic(0)
            let mayGoOn = Atomic(false)
        }
        let slow = Slow()
        let log = try ServerLog(Configuration())
        let declared = upstream("http://a.test:80 http://b.test:80 srv+http://c.test")
        let lookUp: @Sendable (String) -> Void = { _ in
            slow.begun.wrappingAdd(1, ordering: .sequentiallyConsistent)
            while !slow.mayGoOn.load(ordering: .sequentiallyConsistent) { usleep(1_000) }
        }
        let resolver = try UpstreamResolver(
            [declared], every: 30_000, log: log,
            lookUp: { host, _ throws(SystemFault) in
                lookUp(host)
                throw SystemFault("find \(host)", reason: "no server")
            },
            lookUpService: { name throws(SystemFault) in
                lookUp(name)
                throw SystemFault("find \(name)", reason: "no server")
            }
        ) { _, _ in }
        try resolver.start()
        try resolver.prepare([declared], every: 30_000).published()
        #expect(eventually { slow.begun.load(ordering: .sequentiallyConsistent) == 1 })
        let stopper = try WorkerThread(name: "stopper") { resolver.stop() }
        #expect(eventually { resolver.isStopping })
        slow.mayGoOn.store(true, ordering: .sequentiallyConsistent)
        stopper.join()
        #expect(slow.begun.load(ordering: .sequentiallyConsistent) == 1)
        log.close()
    }

    // MARK: services

    /// A name server of hosts and services, of which some may be away.
    private final class Zone: Sendable {
        let hosts = Mutex<[String: [String]]>([:])
        let services = Mutex<[ServiceRecord]?>(nil)

        func resolver(_ declared: UpstreamDeclaration, _ log: ServerLog, _ told: Mailboxes = Mailboxes()) throws -> UpstreamResolver {
            try UpstreamResolver(
                [declared], every: 30_000, log: log,
                lookUp: { host, port throws(SystemFault) in
                    guard let found = self.hosts.withLock({ $0[host] }) else { throw SystemFault("find \(host)", reason: "no server") }
                    return found.compactMap { SocketAddress(parsing: "\($0):\(port)") }
                },
                lookUpService: { name throws(SystemFault) in
                    guard let found = self.services.withLock({ $0 }) else { throw SystemFault("find \(name)", reason: "no server") }
                    return found
                }
            ) { told.add("\($1.map(\.address.description))") }
        }
    }

    @Test func aServiceIsItsTargetsByPriorityAndWeight() throws {
        let zone = Zone()
        zone.hosts.withLock { $0 = ["a.test": ["10.0.0.1", "[fd00::1]"], "b.test": ["10.0.0.2"]] }
        zone.services.withLock {
            $0 = [
                ServiceRecord(priority: 1, weight: 10, port: 81, target: "a.test"),
                ServiceRecord(priority: 1, weight: 0, port: 82, target: "b.test"),
                // The same address again, no port, and a service that is said not to exist.
                ServiceRecord(priority: 2, weight: 1, port: 82, target: "b.test"),
                ServiceRecord(priority: 2, weight: 1, port: 0, target: "a.test"),
                ServiceRecord(priority: 3, weight: 1, port: 80, target: ""),
            ]
        }
        let log = try ServerLog(Configuration())
        let resolver = try zone.resolver(upstream("srv+https://_https._tcp.api.test/v1"), log)
        let addresses = resolver.snapshots()[0].addresses
        #expect(addresses.map(\.address.description) == ["10.0.0.1:81", "[fd00::1]:81", "10.0.0.2:82"])
        #expect(addresses.map(\.rank) == [.init(priority: 1, weight: 500), .init(priority: 1, weight: 500), .init(priority: 1, weight: 1)])
        // The certificate must be for the domain that the operator wrote, not for a name that DNS says.
        #expect(
            addresses.allSatisfy { $0.tls != nil && $0.serverName == "api.test" && $0.authority == "api.test" && $0.pathPrefix == "/v1" })
        log.close()
    }

    @Test func aTargetOrAServiceThatCannotBeFoundKeepsItsLastAddresses() throws {
        let (zone, told) = (Zone(), Mailboxes())
        let (a, b) = (
            ServiceRecord(priority: 0, weight: 1, port: 80, target: "a.test"),
            ServiceRecord(priority: 0, weight: 1, port: 80, target: "b.test")
        )
        zone.hosts.withLock { $0 = ["a.test": ["10.0.0.1"], "b.test": ["10.0.0.2"]] }
        zone.services.withLock { $0 = [a, b] }
        let log = try ServerLog(Configuration())
        let resolver = try zone.resolver(upstream("srv+http://api.test"), log, told)
        _ = resolver.snapshots()
        zone.hosts.withLock { $0["a.test"] = nil }
        #expect(!resolver.lookAgain())
        zone.services.withLock { $0 = nil }
        #expect(!resolver.lookAgain())
        #expect(told.all == [])
        // A server that the service no longer lists is gone.
        zone.services.withLock { $0 = [b] }
        #expect(resolver.lookAgain())
        #expect(told.all == [#"["10.0.0.2:80"]"#])
        zone.services.withLock { $0 = [a, b] }
        #expect(!resolver.lookAgain())
        #expect(told.all.count == 1, "addresses of a target that had left are not kept for its return")
        log.close()
    }

    @Test func aNewWeightIsAChange() throws {
        let (zone, told) = (Zone(), Mailboxes())
        zone.hosts.withLock { $0 = ["a.test": ["10.0.0.1"]] }
        zone.services.withLock { $0 = [ServiceRecord(priority: 0, weight: 1, port: 80, target: "a.test")] }
        let log = try ServerLog(Configuration())
        let resolver = try zone.resolver(upstream("srv+http://api.test"), log, told)
        _ = resolver.snapshots()
        zone.services.withLock { $0 = [ServiceRecord(priority: 0, weight: 2, port: 80, target: "a.test")] }
        #expect(resolver.lookAgain())
        #expect(told.all.count == 1)
        log.close()
    }

    // MARK: reloads

    private static let authority = """
        -----BEGIN CERTIFICATE-----
        MIIBfjCCASWgAwIBAgIUIAanurJ1tQ+SsPk3kYS/E+NJvygwCgYIKoZIzj0EAwIw
        FDESMBAGA1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyMTE2MzMyMFoYDzIxMjYxMDI4
        MTYzMzIwWjAUMRIwEAYDVQQDDAlhdXRob3JpdHkwWTATBgcqhkjOPQIBBggqhkjO
        PQMBBwNCAATHBBwMBZt7/JqXPv30g8ob/F+4zeIAdY4tvtDQbdgFB8UkbxmZzW2V
        arA3QKTbY7qwwH8+cCI+TjUPN2i3Smcxo1MwUTAdBgNVHQ4EFgQUpkvNnei1f8jR
        pcCZT6nGgUE1d4wwHwYDVR0jBBgwFoAUpkvNnei1f8jRpcCZT6nGgUE1d4wwDwYD
        VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBWXFNzU9v5ThyovzZfdQ8G
        PJIQ5u3s31t+doFAZf34rQIgbTI6BDDwUjrDlmHNLgGm2vQ3GVRZB3VFJebJrYJW
        YRw=
        -----END CERTIFICATE-----

        """

    @Test func aReloadKeepsTheContextOfAFileThatStayedAsItWas() throws {
        let folder = try TemporaryFolder()
        let file = folder.path + "/ca.pem"
        try FileBytes.write(Array(Self.authority.utf8), to: file, mode: 0o600)
        let ours = upstream("https://one.test tls-ca=\(file)")
        let (system, plain) = (upstream("https://two.test"), upstream("http://three.test"))
        let first = try AuthorityContexts([ours, system, plain])
        #expect(first[ours] != nil && first[system] != nil)
        let second = try AuthorityContexts([system, ours, upstream("https://four.test tls-ca=\(file)")], earlier: first)
        #expect(second[ours] === first[ours] && second[system] === first[system])
        #expect(second[upstream("https://four.test tls-ca=\(file)")] === first[ours])
        // Written anew, it is another file, whatever it says.
        try FileBytes.write(Array((Self.authority + "\n").utf8), to: file, mode: 0o600)
        let third = try AuthorityContexts([ours, system], earlier: second)
        #expect(third[ours] != nil && third[ours] !== first[ours])
        #expect(third[system] === first[system])
    }

    @Test func aReloadHandsDownTheSameAddresses() throws {
        let log = try ServerLog(Configuration())
        let declared = [upstream("https://127.0.0.1:9443")]
        let resolver = try UpstreamResolver(declared, every: 30_000, log: log) { _, _ in }
        let before = resolver.snapshots()
        try resolver.prepare(declared, every: 30_000).apply()
        let after = resolver.snapshots()
        #expect(before[0].addresses[0].tls != nil && before[0].addresses[0].tls === after[0].addresses[0].tls)
        log.close()
    }
}
