import Testing
import Transport
import Wire

@Suite struct SocketAddressTests {
    @Test(arguments: [
        "127.0.0.1:8000", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:443", "[::]:80", "[2001:db8::7]:8080",
        "unix:/run/tollgate.sock", "unix:@tollgate",
    ])
    func `an address reads as it is written`(_ text: String) throws {
        #expect(try #require(SocketAddress(parsing: text)).description == text)
    }

    @Test(arguments: [
        "", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 80",
        "127.0.0.1:8 ", "127.0.0.1:00000080", "127.1:80", "localhost:80", "::1:80", "[::1]", "[::1]80", "[::1:80",
        "[127.0.0.1]:80", "[::1%lo]:80", "unix:", "unix:/", "unix:@", "unix:relative",
        "unix:/" + String(repeating: "x", count: 107), "unix:/nul\0byte",
    ])
    func `an invalid address is refused`(_ text: String) {
        #expect(SocketAddress(parsing: text) == nil)
    }

    @Test func `a mapped address is its IPv4 address`() {
        #expect(SocketAddress(parsing: "[::ffff:10.1.2.3]:9")?.description == "10.1.2.3:9")
    }

    @Test func `its parts can be read`() throws {
        let address = try #require(SocketAddress(parsing: "[2001:db8::1]:443"))
        #expect(address.port == 443)
        #expect(address.ip == IPAddress(parsing: "2001:db8::1"))
        #expect(SocketAddress.unix("/x").port == nil)
        #expect(SocketAddress.unix("/x").ip == nil)
    }

    @Test func `a wildcard overlaps the other addresses of its port`() throws {
        for (one, other, overlaps) in [
            ("0.0.0.0:80", "127.0.0.1:80", true), ("127.0.0.1:80", "0.0.0.0:80", true), ("[::]:80", "[::1]:80", true),
            ("0.0.0.0:80", "127.0.0.1:81", false), ("127.0.0.1:80", "127.0.0.2:80", false), ("0.0.0.0:80", "[::1]:80", false),
            ("0.0.0.0:80", "[::]:80", false), ("0.0.0.0:80", "0.0.0.0:80", false), ("0.0.0.0:80", "unix:/x", false),
            ("unix:/x", "unix:/y", false),
        ] {
            let (first, second) = (try #require(SocketAddress(parsing: one)), try #require(SocketAddress(parsing: other)))
            #expect(first.overlaps(second) == overlaps, "\(one) \(other)")
        }
    }

    @Test func `an IPv6 listener leaves the port to an IPv4 one`() throws {
        let (six, address) = try listenLocally("[::]:0")
        defer { six.close() }
        let port = try #require(address.port)
        let four = try Socket.listen(on: .ip(IPAddress(v4: 0), port: port))
        four.close()
    }
}
