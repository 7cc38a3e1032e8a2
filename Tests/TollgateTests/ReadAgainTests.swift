import Credentials
import Foundation
import Glibc
import System
import Testing
import Transport
import Wire
import Workbench

@testable import Issuers
@testable import tollgate

/// Key files that could not be read are read again, though nothing about them seems to change: what kept them from being read, such as a
/// lack of descriptors, may pass by itself.
@Suite struct ReadAgainTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func path(_ name: String) -> String { "\(folder.path)/\(name)" }

    /// Changes the contents in place, without a trace in the file's stamp.
    private func overwrite(_ path: String, _ bytes: [UInt8]) throws {
        let before = try FileBytes.stamp(path)
        let file = fopen(path, "r+")
        #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count)
        fclose(file)
        let nanoseconds = before.modifiedNanoseconds
        let time = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        var times = [time, time]
        #expect(utimensat(AT_FDCWD, path, &times, 0) == 0)
        #expect(try FileBytes.stamp(path) == before)
    }

    private func broken(_ bytes: [UInt8]) -> [UInt8] { [UInt8](repeating: UInt8(ascii: "x"), count: bytes.count) }

    @Test func keySetsAndSigningKeys() throws {
        try FileBytes.write(broken(jwksOfA), to: path("k.json"))
        let text = "TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_TRUST_T=\"audience=a jwks=\(path("k.json"))\""
        let plan = IssuersPlan(try #require(load(text, files: [path("k.json"): jwksOfA]).configuration))
        let now = EventLoop.now()
        let own = try KeyStore.open(plan, now: now.wall)
        let store = KeyStore(dataDirectory: folder.path)
        let rotated = try store.rotate(to: .ES256, clockSkewSeconds: 30, now: now.wall)
        let ring = try FileBytes.read(store.path, limit: 1 << 20)
        try overwrite(store.path, self.broken(ring))
        var sources = KeySources(plan, own: own, earlier: nil, at: now)
        // However often it is tried, each fault is told once.
        let broken = (0..<3).map { _ in sources.checkFiles() }
        #expect(broken == [false, false, false])
        #expect(sources.events.map(\.issuer) == ["t", nil])
        #expect(sources.own?.active.kid == own.active.kid && sources.sources[0].keys == nil)
        try overwrite(path("k.json"), jwksOfA)
        try overwrite(store.path, ring)
        let mended = sources.checkFiles()
        #expect(mended && sources.own?.active.kid == rotated.active.kid && sources.sources[0].keys?.keys.map(\.kid) == ["a"])
        let again = sources.checkFiles()
        #expect(!again)
    }

    @Test func certificates() throws {
        let (leaf, key) = (Array(PinFixtures.leaf.utf8), Array(PinFixtures.leafKey.utf8))
        try FileBytes.write(leaf, to: path("a.crt"))
        try FileBytes.write(key, to: path("a.key"))
        let text = """
            TOLLGATE_DATA_DIR=\(folder.path)
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_TLS_CERT=\(path("a.crt"))
            TOLLGATE_TLS_KEY=\(path("a.key"))
            """
        let configuration = try #require(load(text, files: [path("a.crt"): leaf, path("a.key"): key]).configuration)
        let now = EventLoop.now()
        let certificates = try Certificates(configuration, at: now)
        func look() -> String {
            let (isNew, faults) = certificates.lookAgain(now: now.wall)
            return isNew ? "adopted" : faults.isEmpty ? "-" : "fault"
        }
        #expect(look() == "-")
        try FileBytes.write(broken(key), to: path("a.key"))
        #expect([look(), look(), look()] == ["fault", "-", "-"])
        try overwrite(path("a.key"), key)
        #expect([look(), look()] == ["adopted", "-"])
        // The same fault after a change is told again.
        try FileBytes.write(broken(key), to: path("a.key"))
        let first = look()
        try FileBytes.write(broken(key), to: path("a.key"))
        #expect([first, look(), look()] == ["fault", "fault", "-"])
    }

    /// Each part is adopted by itself: one that is broken does not keep another from counting, whichever it is.
    @Test func aBrokenFileLeavesTheRestAlone() throws {
        let files = ["a.crt": PinFixtures.leaf, "a.key": PinFixtures.leafKey, "ca.pem": PinFixtures.leaf].mapValues { Array($0.utf8) }
        for (name, bytes) in files { try FileBytes.write(bytes, to: path(name)) }
        let text = """
            TOLLGATE_DATA_DIR=\(folder.path)
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_TLS_CERT=\(path("a.crt"))
            TOLLGATE_TLS_KEY=\(path("a.key"))
            TOLLGATE_TLS_CLIENT_CA=\(path("ca.pem"))
            """
        let configuration = try #require(load(text).configuration)
        let now = EventLoop.now()
        let certificates = try Certificates(configuration, at: now)
        /// Whether another context serves now.
        func adopts() -> Bool {
            let former = certificates.context
            _ = certificates.lookAgain(now: now.wall)
            return certificates.context !== former
        }
        func faults() -> [String] { certificates.faults(now: now.wall) { _ in } }
        try FileBytes.write(broken(files["ca.pem"]!), to: path("ca.pem"))
        #expect([adopts(), adopts()] == [false, false])
        #expect(faults().count == 1 && faults()[0].contains("ca.pem"))
        for (name, bytes) in files where name != "ca.pem" { try FileBytes.write(bytes, to: path(name)) }
        #expect([adopts(), adopts()] == [true, false] && faults().count == 1)
        try FileBytes.write(broken(files["a.key"]!), to: path("a.key"))
        #expect([adopts(), adopts()] == [false, false] && faults().count == 2)
        try FileBytes.write(files["ca.pem"]!, to: path("ca.pem"))
        #expect([adopts(), adopts()] == [true, false])
        #expect(faults().count == 1 && faults()[0].contains("a.key"))
        try FileBytes.write(files["a.key"]!, to: path("a.key"))
        #expect([adopts(), adopts()] == [true, false] && faults().isEmpty)
        // A reload does not take it.
        try FileBytes.write(broken(files["ca.pem"]!), to: path("ca.pem"))
        #expect(throws: TLSFault.self) { try certificates.load(configuration, now: now.wall) }
    }
}
