import Testing

@testable import Settings

@Suite struct NearestNameTests {
    @Test(arguments: [
        ("", "", 0), ("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("abc", "abd", 1), ("abc", "ab", 1), ("ab", "abc", 1),
        ("abc", "acb", 1), ("kitten", "sitting", 3), ("limt", "limit", 1), ("lmiit", "limit", 1),
    ])
    func aDistanceCountsSlipsOfTheHand(_ left: String, _ right: String, _ distance: Int) {
        #expect(editDistance(left, right) == distance)
        #expect(editDistance(right, left) == distance)
    }

    @Test(arguments: [
        ("TOLLGATE_LISTN", "TOLLGATE_LISTEN"), ("TOLLGATE_LISTEN_TSL", "TOLLGATE_LISTEN_TLS"),
        ("tollgate_listen", "TOLLGATE_LISTEN"), ("TOLLGATE_ROUTES_FOO", "TOLLGATE_ROUTE_<NAME>"),
        ("TOLLGATE_UPSTERAM_API", "TOLLGATE_UPSTREAM_<NAME>"), ("TOLLGATE_TRUSTED_PROXY", "TOLLGATE_TRUSTED_PROXIES"),
        ("TOLLGATE_ROUTE_", "TOLLGATE_ROUTE_<NAME>"), ("TOLLGATE_WORKER", "TOLLGATE_WORKERS"),
        ("TOLLGATE_JWT_SECRETS", "TOLLGATE_JWT_SECRET"), ("TOLLGATE_REDIS_URL", "REDIS_URL"),
        ("TOLLGATE_DATABASE_ULR", "TOLLGATE_DATABASE_URL"),
        ("TOLLGATE_SMTP_URL", "SMTP_URL"), ("TOLLGATE_SMPT_URL", "SMTP_URL"), ("TOLLGATE_RESET_UL", "TOLLGATE_RESET_URL"),
        ("TOLLGATE_OTEL_SERVICE_NAME", "OTEL_SERVICE_NAME"),
    ])
    func anUnknownSettingIsAFaultWithTheNearestName(_ unknown: String, _ known: String) {
        #expect(Setting.named(unknown) == nil)
        #expect(Setting.nearest(to: unknown) == known)
    }

    @Test func aNameOfAnyLengthHasANearestOne() {
        #expect(!Setting.nearest(to: "TOLLGATE_" + String(repeating: "X", count: 100_000)).isEmpty)
    }
}
