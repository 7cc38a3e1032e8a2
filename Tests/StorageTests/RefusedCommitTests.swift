import Accounts
import Testing
import TestServers

@testable import Storage

/// Statements that travel in one message with the commit, and are refused.
@Suite struct RefusedCommitTests {
    /// The server has skipped the commit, so its outcome is known: the call fails after one more try on another connection, as for a
    /// statement before, and does not look up for ten seconds whether it was committed.
    @Test func aDiskThatIsFullAtTheCommitIsReportedAtOnce() async throws {
        let bench = try Backend.postgres.bench()
        defer { bench.end() }
        let session = try #require(try await bench.store.opened("ada@x").session)
        try bench.run("CREATE SEQUENCE public.tries")
        try bench.run(
            """
            CREATE FUNCTION public.fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.tries');
            RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'filled by hand'; END $$
            """)
        try bench.run("CREATE TRIGGER fill BEFORE INSERT ON tollgate.audit_events FOR EACH ROW EXECUTE FUNCTION public.fill()")
        let found = await fault { _ = try await bench.store.end(session.id, .signOut, at(1)) }
        #expect(found?.absence?.contains("filled by hand") == true, "\(String(describing: found))")
        guard case .postgres(let url, _) = bench.location, let database = url.split(separator: "/").last else { throw Fault("no database") }
        let tries = try PostgresCluster.shared.get().run("SELECT last_value FROM public.tries", in: String(database))
        // A thread whose connection is new does not try again.
        #expect(["1", "2"].contains(tries))
        #expect(try await bench.store.session(session.id) != nil)
    }
}
