import Foundation
import TestThreads
import Testing

/// A steady-state proxied request allocates nothing: counted in the binary that ships, by a library loaded before the
/// C library.
@Suite(.serialized, .ownThread) struct AllocationTests {
    /// Counts calls by the kind of thread, a worker or any other, in a file that both processes see.
    private static let counter = """
        #define _GNU_SOURCE
        #include <errno.h>
        #include <fcntl.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/prctl.h>
        #include <unistd.h>

        extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
        extern void *__libc_memalign(size_t, size_t);

        /* [0]: by workers, [1]: by other threads, [2]: where to stop naming callers */
        static unsigned long *counts;

        __attribute__((constructor)) static void begin(void) {
            const char *path = getenv("ALLOCATION_COUNTS");
            int file = path ? open(path, O_RDWR) : -1;
            if (file < 0) return;
            void *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            if (at != MAP_FAILED) counts = at;
            close(file);
        }

        static void count(void) {
            static __thread char kind __attribute__((tls_model("initial-exec")));
            if (!counts) return;
            if (!kind) {
                char name[16] = "";
                prctl(PR_GET_NAME, name);
                if (strncmp(name, "worker", 6) == 0) kind = 1; else kind = 2;
                /* A thread gets its name after its start. */
                if (kind == 2) { __atomic_fetch_add(&counts[1], 1, __ATOMIC_RELAXED); kind = 0; return; }
            }
            __atomic_fetch_add(&counts[0], 1, __ATOMIC_RELAXED);
        }

        void *malloc(size_t size) { count(); return __libc_malloc(size); }
        void *calloc(size_t n, size_t size) { count(); return __libc_calloc(n, size); }
        void *realloc(void *old, size_t size) { count(); return __libc_realloc(old, size); }
        void *memalign(size_t unit, size_t size) { count(); return __libc_memalign(unit, size); }
        void *aligned_alloc(size_t unit, size_t size) { count(); return __libc_memalign(unit, size); }
        int posix_memalign(void **out, size_t unit, size_t size) {
            count();
            *out = __libc_memalign(unit, size);
            return *out || !size ? 0 : ENOMEM;
        }
        """

    /// What has been allocated so far.
    private struct Counts {
        var byWorkers: UInt64
        var byOthers: UInt64

        init(_ folder: Folder) throws {
            let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: folder.file("counts"))))
            (byWorkers, byOthers) = bytes.withUnsafeBytes {
                ($0.loadUnaligned(fromByteOffset: 0, as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            }
        }
    }

    /// What the workers allocated during the batch of requests in which they allocated least. A busy machine lets more requests wait at
    /// once than before, for which memory is taken once, or lets a connection idle until its buffers are given back: a single batch may
    /// meet that, and not each of thirty. One with no more than `allowed` is enough.
    private func minAllocated(_ folder: Folder, allowed: UInt64 = 0, _ batch: () throws -> Void) throws -> UInt64 {
        var least = UInt64.max
        for _ in 0..<30 where least > allowed {
            let before = try Counts(folder).byWorkers
            try batch()
            least = min(least, try Counts(folder).byWorkers - before)
        }
        return least
    }

    /// `more` are further settings.
    private func gateway(_ folder: Folder, _ upstream: Nginx, accessLog: String, _ more: String = "") throws -> Gateway {
        try folder.write("counter.c", Self.counter)
        try mustRun("gcc", ["-O1", "-shared", "-fPIC", "-o", folder.file("counter.so"), folder.file("counter.c")])
        try Data(count: 4_096).write(to: URL(fileURLWithPath: folder.file("counts")))
        return try Gateway(
            """
            TOLLGATE_ACCESS_LOG=\(accessLog)
            TOLLGATE_UPSTREAM_U="http://127.0.0.1:\(upstream.port)"
            TOLLGATE_ROUTE_A="/* upstream=u limit=free:1000000/s,premium:2000000/s"
            \(more)
            """, folder: folder,
            environment: ["LD_PRELOAD": folder.file("counter.so"), "ALLOCATION_COUNTS": folder.file("counts")])
    }

    @Test(arguments: ["off", "json"])
    func aSteadyStateRequestAllocatesNothing(_ accessLog: String) throws {
        let folder = try Folder()
        let upstream = try Nginx("location / { return 200 \"hello\"; }")
        let gateway = try gateway(folder, upstream, accessLog: accessLog)
        let bearers = try (0..<20).map { try gateway.bearer("--sub", "user-\($0)", "--tier", $0 % 2 == 0 ? "free" : "premium") }
        let connections = try (0..<8).map { _ in try gateway.connect() }
        let content = String(repeating: "c", count: 500)
        let ask = { (count: Int) in
            for number in 0..<count / 8 {
                // All at once, so that several requests are under way at a time.
                for (index, connection) in connections.enumerated() {
                    let bearer = bearers[(number + index) % bearers.count]
                    let fields = [bearer, "User-Agent: test", "Accept: */*"]
                    if index < 6 {
                        try connection.send(requestHead("GET /some/path?page=\(number % 10)", fields))
                    } else {
                        try connection.send(requestHead("POST /other", fields, length: 500) + content)
                    }
                }
                for connection in connections where try connection.answer().status != 200 { throw Fault("a request failed") }
            }
        }
        try ask(4_000)
        let (before, start) = (try Counts(folder), ContinuousClock.now)
        try ask(5_000)
        let after = try Counts(folder)
        // The threads that look at files and clocks once a second, and the log's writer: a few for each second that the
        // requests take, none for each request.
        let seconds = UInt64((ContinuousClock.now - start).components.seconds)
        #expect(after.byOthers - before.byOthers < 100 + 20 * seconds, "\(after.byOthers - before.byOthers) in \(seconds) s")
        // How many lines wait together for the log's writer is a matter of luck: the buffers for them may double a few
        // more times, whatever the number of requests.
        let allowed: UInt64 = accessLog == "off" ? 0 : 4
        #expect(try minAllocated(folder, allowed: allowed) { try ask(2_000) } <= allowed)
        let known = try Counts(folder).byWorkers
        #expect(try gateway.ask("GET /x", [try gateway.bearer("--sub", "new")]).status == 200)
        #expect(try Counts(folder).byWorkers > known, "what is new does cost something: the counter counts")
    }

    /// Spans are recorded in memory that is kept; only other threads allocate, to send them.
    @Test func aRecordedRequestAllocatesNothingEither() throws {
        let folder = try Folder()
        let upstream = try Nginx("location / { return 200 \"hello\"; }\nclient_max_body_size 10m;")
        let gateway = try gateway(
            folder, upstream, accessLog: "off",
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:\(upstream.port)\nOTEL_BSP_SCHEDULE_DELAY=50\nOTEL_BSP_MAX_QUEUE_SIZE=100000")
        let bearer = try gateway.bearer("--sub", "ada")
        let connection = try gateway.connect()
        let ask = { (count: Int) in
            for _ in 0..<count where try connection.ask("GET /some/path?page=1", [bearer, "User-Agent: test"]).status != 200 {
                throw Fault("a request failed")
            }
        }
        try ask(4_000)
        #expect(try minAllocated(folder, allowed: 4) { try ask(3_000) } <= 4)
        try eventually("the spans are sent") { try gateway.metric("tollgate_spans_exported_total") > 5_000 }
    }

    /// A tier that is known, whether set here, that of an imported account or answered by a tier server, is found without an allocation.
    @Test func aKnownTierOfAnOutsideIssuersUserCostsNothing() throws {
        let folder = try Folder()
        let secret = "the secret of an old system's tokens"
        try folder.write("secret", secret)
        let upstream = try Nginx("location / { return 200 \"hello\"; }\nlocation /tier { return 200 '{\"tier\":\"premium\"}'; }")
        let line = "audience=any secret-file=\(folder.file("secret")) algorithms=HS256"
        let gateway = try gateway(
            folder, upstream, accessLog: "off",
            """
            TOLLGATE_TRUST_KEPT="issuer=kept \(line) tier-from=account"
            TOLLGATE_TRUST_HOME="issuer=home \(line) tier-from=account accounts=on"
            TOLLGATE_TRUST_ASKED="issuer=asked \(line) tier-from=lookup tier-url=http://127.0.0.1:\(upstream.port)/tier tier-max-age=1h"
            """)
        let bearers = try (0..<30).map { number in
            let token = try IssuerKey(.hs256(secret: secret)).token(
                #"{"iss":"\#(["kept", "asked", "home"][number % 3])","sub":"user-\#(number)","exp":\#(unixNow + 3_600)}"#)
            return "Authorization: Bearer \(token)"
        }
        for number in stride(from: 2, to: 30, by: 3) {
            #expect(try gateway.command(["user", "create", "--identity", "home:user-\(number)", "--tier", "premium"]).code == 0)
        }
        let connection = try gateway.connect()
        let ask = { (count: Int) in
            for number in 0..<count {
                try connection.send(requestHead("GET /page", [bearers[number % bearers.count]]))
                guard try connection.answer().status == 200 else { throw Fault("a request failed") }
            }
        }
        // The changes of the accounts above come in meanwhile, and cost something once.
        try eventually("requests that cost nothing") {
            let before = try Counts(folder)
            try ask(2_000)
            return try Counts(folder).byWorkers == before.byWorkers
        }
        #expect(try gateway.metric("tollgate_tier_lookups_total", #"result="ok""#) == 10)
    }

    /// A signed identity is copied, and made anew every 40 s.
    @Test func aSignedIdentityThatIsKnownCostsNothing() throws {
        let folder = try Folder()
        let upstream = try Nginx("location / { return 200 \"hello\"; }")
        let gateway = try gateway(
            folder, upstream, accessLog: "off",
            "TOLLGATE_ROUTE_S=\"/signed upstream=u identity=signed max-age=1h\"\nTOLLGATE_ROUTE_T=\"/too upstream=u identity=signed\"")
        let bearers = try (0..<10).map { try gateway.bearer("--sub", "user-\($0)", "--claim", "auth_time=\(unixNow)") }
        let connection = try gateway.connect()
        let ask = { (count: Int) in
            for number in 0..<count {
                try connection.send(requestHead("GET /\(number % 2 == 0 ? "signed" : "too")", [bearers[number / 2 % bearers.count]]))
                guard try connection.answer().status == 200 else { throw Fault("a request failed") }
            }
        }
        try ask(500)
        #expect(try minAllocated(folder) { try ask(2_000) } == 0)
    }

    @Test func pagesOfOtherOriginsAndTheirPreflightsCostNothing() throws {
        let folder = try Folder()
        let upstream = try Nginx("location / { return 200 \"hello\"; }")
        let gateway = try gateway(folder, upstream, accessLog: "off", "TOLLGATE_CORS=\"https://app.test https://*.example.net\"")
        let bearer = try gateway.bearer("--sub", "user")
        let heads = [
            requestHead("GET /x", [bearer]), requestHead("GET /x", [bearer, "Origin: https://app.test"]),
            requestHead("POST /x", [bearer, "Origin: https://a.b.example.net"], length: 0),
            requestHead("GET /x", [bearer, "Origin: https://evil.test"]),
            requestHead("OPTIONS /x", ["Origin: https://app.test", "Access-Control-Request-Method: PUT"]),
        ]
        let connection = try gateway.connect()
        let ask = { (count: Int) in
            for number in 0..<count {
                try connection.send(heads[number % heads.count])
                guard [200, 204].contains(try connection.answer().status) else { throw Fault("a request failed") }
            }
        }
        try ask(1_000)
        #expect(try minAllocated(folder) { try ask(2_000) } == 0)
    }

    @Test func aSteadyStateRequestOverHTTP2AllocatesNothing() throws {
        let folder = try Folder()
        let upstream = try Nginx("location / { return 200 \"hello\"; }")
        let gateway = try gateway(folder, upstream, accessLog: "off", "TOLLGATE_LISTEN=127.0.0.1:0;h2c")
        let bearer = String(try gateway.bearer("--sub", "user").dropFirst("Authorization: ".utf8.count))
        let peers = try (0..<4).map { _ in try HTTP2Peer(gateway) }
        for peer in peers { try peer.widen(0, by: 1 << 30) }
        var stream = 1
        let ask = { (rounds: Int) in
            for _ in 0..<rounds {
                for peer in peers {
                    for number in 0..<4 { try peer.ask(stream + 2 * number, "GET", "/some/path", [("authorization", bearer)]) }
                }
                for peer in peers {
                    var ended = 0
                    try peer.take { frame in
                        ended += frame.endsStream ? 1 : 0
                        return ended == 4
                    }
                }
                stream += 8
            }
        }
        try ask(300)
        #expect(try minAllocated(folder) { try ask(300) } == 0)
    }

    @Test func aSteadyStateRequestOverTLSCostsOnlyOpenSSLsOwnBlocks() throws {
        let folder = try Folder()
        try CertificateAuthority(folder).issue("one", "DNS:localhost")
        let upstream = try Nginx("location / { return 200 \"hello\\n\"; }")
        let gateway = try gateway(
            folder, upstream, accessLog: "off",
            "TOLLGATE_LISTEN_TLS=127.0.0.1:0\nTOLLGATE_TLS_CERT=\(folder.file("one.crt"))\nTOLLGATE_TLS_KEY=\(folder.file("one.key"))")
        let request = requestHead("GET /some/path", [try gateway.bearer("--sub", "user")])
        let clients = try (0..<4).map { _ in
            try Subprocess("openssl", ["s_client", "-connect", "127.0.0.1:\(gateway.tlsPort)", "-quiet"])
        }
        for client in clients { client.say(request) }
        for client in clients { try client.output.wait(for: "an answer", until: { $0.last == "hello" }) }
        let lines = clients[0].output.now.count
        var asked = 1
        let ask = { (count: Int) in
            for _ in 0..<count {
                asked += 1
                for client in clients { client.say(request) }
                for client in clients { try client.output.wait(for: "an answer", until: { $0.count >= asked * lines }) }
            }
        }
        try ask(100)
        let requests = 250
        // OpenSSL writes the frame of each record by way of small blocks: one to open a record, three to seal one. A client
        // that a busy machine kept waiting finds its two buffers given back.
        let allowed = UInt64(5 * requests * clients.count)
        #expect(try minAllocated(folder, allowed: allowed) { try ask(requests) } <= allowed)
        #expect(clients.allSatisfy { $0.output.now.count { $0.contains("HTTP/1.1 200 OK") } == asked })
    }
}
