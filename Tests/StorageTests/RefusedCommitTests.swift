import Accounts
import Testing

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
        #expect(found?.failure?.contains("filled by hand") == true, "\(String(describing: found))")
        try bench.run("SELECT 1 / (CASE WHEN last_value = 2 THEN 1 ELSE 0 END) FROM public.tries")
        #expect(try await bench.store.session(session.id) != nil)
    }
}
