import Acme
import Credentials
import Testing
import Wire

@Suite struct RenewalRuleTests {
    private static let start = WallTime(seconds: 1_800_000_000)

    private func certificate(days: Int64) throws -> IssuedCertificate {
        let key = try SigningKey.generate(.ES256)
        let draft = CertificateDraft(
            name: "a.example", notBefore: Self.start, notAfter: Self.start.advanced(seconds: days * 86_400), isAuthority: false)
        let issued = try #require(IssuedCertificate(pem: try draft.selfSignedPEM(of: key)))
        let other = try SigningKey.generate(.ES256)
        #expect(issued.belongs(to: key) && !issued.belongs(to: other))
        return issued
    }

    private func failure(_ cause: AcmeFailure.Cause, hadOrder: Bool = true, retryAfter: Int64? = nil) -> AcmeFailure {
        var failure = AcmeFailure(cause, "said so")
        (failure.hadOrder, failure.retryAfter) = (hadOrder, retryAfter)
        return failure
    }

    @Test func aCertificateIsRenewedAfterTwoThirdsOfItsLife() throws {
        for days: Int64 in [1, 6, 90] {
            let certificate = try certificate(days: days)
            let due = RenewalState().dueAt(certificate)
            let share = Double(due.microseconds - certificate.startsAt.microseconds) / Double(days * 86_400_000_000)
            #expect(share > 0.61 && share <= 0.667, "\(days) days")
            #expect(due < RenewalState.lateAt(certificate))
        }
        #expect(RenewalState().dueAt(nil) == WallTime(seconds: 0))
    }

    @Test func failuresBackOff() throws {
        var state = RenewalState()
        var pauses: [Int64] = []
        for _ in 0..<8 {
            state.failed(failure(.dns), at: Self.start)
            pauses.append(state.dueAt(nil).seconds - Self.start.seconds)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 24, 24, 24].map { $0 * 3_600 })
        #expect(state.problem == "said so" && state.cause == "dns")
        var cheap = RenewalState()
        pauses = []
        for _ in 0..<8 {
            cheap.failed(failure(.unreachable, hadOrder: false), at: Self.start)
            pauses.append(cheap.dueAt(nil).seconds - Self.start.seconds)
        }
        #expect(pauses == Array(repeating: 60, count: 8) && cheap.failures == 0)
        // One by hand, that meets no authority, does not shorten the wait after a failure that cost an order.
        var late = RenewalState()
        late.failed(failure(.dns), at: Self.start)
        late.failed(failure(.unreachable, hadOrder: false), at: Self.start.advanced(seconds: 10))
        #expect(late.dueAt(nil).seconds - Self.start.seconds == 3_600 && late.cause == "unreachable")
        cheap.failed(failure(.rateLimit, hadOrder: false, retryAfter: 200_000), at: Self.start)
        #expect(cheap.dueAt(nil).seconds - Self.start.seconds == 200_000)
        #expect(RenewalState(text: cheap.text) == cheap && RenewalState(text: "[") == RenewalState())
    }

    /// Two gateways of one database with different authorities replace each other's certificate once an hour, not at once.
    @Test func anotherAuthoritysCertificateIsReplacedOnceAnHour() {
        var state = RenewalState()
        state.replaced(at: Self.start)
        #expect(RenewalState(text: state.text).dueAt(nil) == Self.start.advanced(seconds: 3_600))
    }

    @Test func theAuthoritysWindowWins() throws {
        let certificate = try certificate(days: 90)
        func window(_ first: Int64, _ last: Int64, retryAfter: String? = nil) -> AcmeResponse {
            let times = [first, last].map { ISO8601.text(Self.start.advanced(seconds: $0 * 86_400)) }
            let json = #"{"suggestedWindow":{"start":"\#(times[0])","end":"\#(times[1])"}}"#
            var response = AcmeResponse(status: 200, body: Array(json.utf8))
            response.retryAfter = retryAfter
            return response
        }
        var state = RenewalState()
        #expect(state.asksForWindow(at: Self.start))
        state.read(window(10, 12, retryAfter: "7200"), for: certificate, at: Self.start, random: 86_400_000_000)
        #expect(state.dueAt(certificate) == Self.start.advanced(seconds: 11 * 86_400))
        #expect(
            !state.asksForWindow(at: Self.start.advanced(seconds: 7_199)) && state.asksForWindow(at: Self.start.advanced(seconds: 7_200)))
        // The time stays while it is in the window, and moves with it.
        state.read(window(9, 12), for: certificate, at: Self.start, random: 0)
        #expect(state.dueAt(certificate) == Self.start.advanced(seconds: 11 * 86_400))
        #expect(RenewalState(text: state.text) == state)
        state.read(window(1, 2), for: certificate, at: Self.start, random: 0)
        #expect(state.dueAt(certificate) == Self.start.advanced(seconds: 86_400))
        // A window behind the end of the certificate leaves no room for a second try.
        var latest = state
        latest.read(window(100, 120), for: certificate, at: Self.start, random: 0)
        #expect(latest.dueAt(certificate) == Self.start.advanced(seconds: 75 * 86_400))
        for broken in [AcmeResponse(status: 404), AcmeResponse(status: 200, body: [0x7B]), window(5, 4)] {
            let before = state.dueAt(certificate)
            state.read(broken, for: certificate, at: Self.start, random: 0)
            #expect(state.dueAt(certificate) == before)
        }
        // Another certificate is not the one that was asked about.
        let other = try self.certificate(days: 90)
        #expect(state.dueAt(other) > Self.start.advanced(seconds: 50 * 86_400))
    }
}
