import System
import TestThreads
import Testing
import Transport
import Wire

@testable import Redis

@Suite(.ownThread) struct EndpointTests {
    /// The URL, its meaning (address, TLS, database), and the credentials.
    static let good: [(String, RedisEndpoint)] = [
        ("redis://localhost", .init(topology: .single(.host("localhost", port: 6379)), usesTLS: false)),
        ("redis://localhost/", .init(topology: .single(.host("localhost", port: 6379)), usesTLS: false)),
        ("REDIS://127.0.0.1:7000/3", .init(topology: .single(.host("127.0.0.1", port: 7000)), usesTLS: false, database: 3)),
        ("rediss://redis.example:6380/15", .init(topology: .single(.host("redis.example", port: 6380)), usesTLS: true, database: 15)),
        ("redis://[::1]", .init(topology: .single(.host("::1", port: 6379)), usesTLS: false)),
        ("rediss://[2001:db8::7]:1/0", .init(topology: .single(.host("2001:db8::7", port: 1)), usesTLS: true)),
        (
            "redis://:secret@h",
            .init(topology: .single(.host("h", port: 6379)), usesTLS: false, credentials: .init(password: Array("secret".utf8)))
        ),
        (
            "redis://ada:se%3Acr%40et%2F@h:1",
            .init(
                topology: .single(.host("h", port: 1)), usesTLS: false,
                credentials: .init(user: Array("ada".utf8), password: Array("se:cr@et/".utf8)))
        ),
        (
            "redis://ada:a:b@h",
            .init(
                topology: .single(.host("h", port: 6379)), usesTLS: false,
                credentials: .init(user: Array("ada".utf8), password: Array("a:b".utf8)))
        ),
        (
            "redis://ada:@h",
            .init(topology: .single(.host("h", port: 6379)), usesTLS: false, credentials: .init(user: Array("ada".utf8), password: []))
        ),
        ("redis://:@h", .init(topology: .single(.host("h", port: 6379)), usesTLS: false)),
        ("redis://@h", .init(topology: .single(.host("h", port: 6379)), usesTLS: false)),
        ("redis://:%FF%01@h", .init(topology: .single(.host("h", port: 6379)), usesTLS: false, credentials: .init(password: [0xFF, 1]))),
        ("unix:/run/redis.sock", .init(topology: .single(.unix(path: "/run/redis.sock")), usesTLS: false)),
        ("unix:///run/redis.sock?db=2", .init(topology: .single(.unix(path: "/run/redis.sock")), usesTLS: false, database: 2)),
        ("redis+cluster://a", .init(topology: .cluster([.host("a", port: 6379)]), usesTLS: false)),
        (
            "redis+cluster://10.0.0.1:7000,[::1]:7001,c/0",
            .init(
                topology: .cluster([.host("10.0.0.1", port: 7000), .host("::1", port: 7001), .host("c", port: 6379)]), usesTLS: false)
        ),
        (
            "rediss+cluster://ada:a,b@a,b/",
            .init(
                topology: .cluster([.host("a", port: 6379), .host("b", port: 6379)]), usesTLS: true,
                credentials: .init(user: Array("ada".utf8), password: Array("a,b".utf8)))
        ),
        (
            "redis+sentinel://a/my.master-1_x",
            .init(topology: .sentinel([.host("a", port: 26379)], master: "my.master-1_x"), usesTLS: false)
        ),
        (
            "rediss+sentinel://:secret@a:1,[::1]/m/3?sentinel-user=ada&sentinel-password=s%26t",
            .init(
                topology: .sentinel([.host("a", port: 1), .host("::1", port: 26379)], master: "m"), usesTLS: true,
                credentials: .init(password: Array("secret".utf8)),
                sentinelCredentials: .init(user: Array("ada".utf8), password: Array("s&t".utf8)), database: 3)
        ),
        (
            "unix:/a%20b?password=x%26y&db=1&user=ada",
            .init(
                topology: .single(.unix(path: "/a b")), usesTLS: false,
                credentials: .init(user: Array("ada".utf8), password: Array("x&y".utf8)), database: 1)
        ),
    ]

    @Test(arguments: good)
    func `a URL has the server's address and the credentials`(_ text: String, _ expected: RedisEndpoint) throws {
        let endpoint = try RedisEndpoint(parsing: text)
        #expect(endpoint.topology == expected.topology)
        #expect(endpoint.usesTLS == expected.usesTLS)
        #expect(endpoint.user == expected.user)
        #expect(endpoint.password == expected.password)
        #expect(endpoint.database == expected.database)
        #expect(endpoint == expected)
    }

    static let bad: [(String, RedisEndpointFault)] = [
        ("", .scheme), ("localhost:6379", .scheme), ("localhost", .scheme), ("http://localhost", .scheme),
        ("redis:localhost", .scheme), ("redis:/localhost", .scheme),
        ("redis+cluster:a", .scheme), ("redis+other://a", .scheme),
        ("redis+cluster://", .host), ("redis+cluster://a,,b", .host), ("redis+cluster://a,", .host), ("redis+cluster://a, b", .host),
        ("redis+sentinel:///m", .host), ("redis://a,b", .severalHosts), ("rediss://:secret@a:1,b:2/0", .severalHosts),
        ("redis+cluster://a,b:0", .port), ("redis+sentinel://a:x/m", .port),
        ("redis+cluster://a/1", .clusterDatabase), ("redis+cluster://a/x", .database), ("redis+sentinel://a/m/x", .database),
        ("redis+sentinel://a/m/0/1", .database),
        ("redis+sentinel://a", .masterName), ("redis+sentinel://a/", .masterName), ("redis+sentinel://a//0", .masterName),
        ("redis+sentinel://a/m%20n", .masterName), ("redis+sentinel://a?master=m", .masterName),
        ("redis+cluster://a?db=0", .query), ("redis+cluster://a/#0", .query),
        ("redis+sentinel://a/m?password=secret", .sentinelQuery), ("redis+sentinel://a/m?sentinel-user=ada", .sentinelQuery),
        ("redis+sentinel://a/m?sentinel-password=a&sentinel-password=b", .sentinelQuery), ("redis+sentinel://a/m/0#x", .sentinelQuery),
        ("redis+sentinel://a/m#sentinel-password=secret", .sentinelQuery),
        ("redis+sentinel://a/m?sentinel-password=%zz", .encoding), ("redis+sentinel://a/m?sentinel-password=a@b", .reserved),
        ("redis+cluster://ada@h", .userWithoutPassword),
        ("redis://", .host), ("redis://:6379", .host), ("redis://::1", .host), ("redis://[::1", .host),
        ("redis://[::g]", .host), ("redis://a b", .host), ("redis://secret@", .userWithoutPassword), ("redis://:x@", .host),
        ("redis://h:", .port), ("redis://h:0", .port), ("redis://h:65536", .port), ("redis://h:6379x", .port),
        ("redis://h:-1", .port), ("redis://[::1]:", .port),
        ("redis://h/x", .database), ("redis://h/-1", .database), ("redis://h/0/1", .database),
        ("redis://h/99999999999999999999", .database), ("unix:/p?db=one", .database),
        ("redis://h?db=1", .query), ("redis://h/0?timeout=1", .query), ("redis://h/#0", .query),
        ("unix:/p?database=1", .query), ("unix:/p?db=1&db=2", .query), ("unix:/p?password=a&b", .query),
        ("redis://ada@h", .userWithoutPassword), ("unix:/p?user=ada", .userWithoutPassword),
        ("redis://:se%zzcret@h", .encoding), ("redis://:secret%@h", .encoding), ("redis://:secret%00@h", .encoding),
        ("unix:/p?password=%4", .encoding),
        ("redis://:se/cret@h", .reserved), ("redis://:se?cret@h", .reserved), ("redis://:se#cret@h", .reserved),
        ("redis://:se@cret@h", .reserved), ("redis://:[secret@h", .reserved),
        ("unix:", .path), ("unix:redis.sock", .path), ("unix://run/redis.sock", .path), ("unix:/", .path),
        ("unix:/" + String(repeating: "x", count: 107), .path),
    ]

    @Test(arguments: bad)
    func `an invalid URL is a fault that says what would be valid`(_ text: String, _ fault: RedisEndpointFault) {
        #expect(throws: fault) { try RedisEndpoint(parsing: text) }
        #expect(!fault.description.contains("secret"))
    }

    @Test(arguments: RedisEndpointFault.allCases)
    func `every fault can happen and has a sentence of its own`(_ fault: RedisEndpointFault) {
        #expect(Self.bad.contains { $0.1 == fault })
        #expect(RedisEndpointFault.allCases.filter { $0.description == fault.description }.count == 1)
    }

    @Test func `printing an endpoint shows no password`() throws {
        let endpoint = try RedisEndpoint(parsing: "rediss://ada:secret@[::1]:7/2")
        var dumped = ""
        dump(endpoint, to: &dumped)
        for text in ["\(endpoint)", String(reflecting: endpoint), "\([endpoint])", dumped] {
            #expect(text.contains("rediss://[::1]:7/2") || text == dumped)
            #expect(!text.contains("secret") && !text.contains("ada") && !text.contains("115"))
        }
        #expect(try "\(RedisEndpoint(parsing: "unix:/x?password=secret"))" == "unix:/x?db=0")
        #expect(try "\(RedisEndpoint(parsing: "redis+cluster://:secret@a,[::1]:7/0"))" == "redis+cluster://a:6379,[::1]:7")
        #expect(
            try "\(RedisEndpoint(parsing: "rediss+sentinel://:secret@a,b:1/m?sentinel-password=secret"))"
                == "rediss+sentinel://a:26379,b:1/m/0")
    }

    @Test func `addresses need a resolver only where there is a name`() throws {
        #expect(try RedisEndpoint(parsing: "unix:/x").fixedAddresses == [.unix("/x")])
        #expect(try RedisEndpoint(parsing: "redis://127.0.0.1:7").fixedAddresses == [#require(SocketAddress(parsing: "127.0.0.1:7"))])
        #expect(try RedisEndpoint(parsing: "redis://[::1]").fixedAddresses == [#require(SocketAddress(parsing: "[::1]:6379"))])
        #expect(try RedisEndpoint(parsing: "redis://redis.example").fixedAddresses == nil)
        #expect(try RedisEndpoint(parsing: "rediss://redis.example").serverName == "redis.example")
    }

    @Test func `a server of a cluster and a sentinel have each their own credentials`() throws {
        let cluster = try RedisEndpoint(parsing: "rediss+cluster://ada:secret@a,b").server(at: .host("c", port: 7))
        #expect(try cluster == RedisEndpoint(parsing: "rediss://ada:secret@c:7"))
        #expect(cluster.serverName == "c")
        let url = "redis+sentinel://ada:secret@a,b/m/2?sentinel-password=other"
        #expect(try RedisEndpoint(parsing: url).server(at: .host("c", port: 7)) == RedisEndpoint(parsing: "redis://ada:secret@c:7/2"))
        #expect(try RedisEndpoint(parsing: url).sentinel(at: .host("a", port: 9)) == RedisEndpoint(parsing: "redis://:other@a:9"))
        #expect(try RedisEndpoint(parsing: url).fixedAddresses == nil)
        #expect(try RedisEndpoint(parsing: url).seeds == [.host("a", port: 26379), .host("b", port: 26379)])
    }
}
