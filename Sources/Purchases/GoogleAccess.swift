internal import Accounts
internal import Credentials
internal import Wire

/// Both directions of trust between Google and us: its push notifications are verified by its keys, and its API is asked with a token that
/// the service account's key buys.
final class GoogleAccess: Sendable {
    /// Keys are fetched again after an hour, and for a key that they lack after a minute: a forger cannot make us fetch more often. While
    /// Google is away the last ones count for a day.
    private static let keySeconds: (fresh: UInt64, unknown: UInt64, last: UInt64) = (3_600, 60, 86_400)

    private struct Keys {
        let set: KeySet
        let at: MonotonicTime
    }

    private struct Token {
        let text: String
        let until: MonotonicTime
    }

    private let plan: GooglePlan
    private let requests: StoreRequests
    private let keys = SharedFetch<Keys>()
    private let tokens = SharedFetch<Token>()

    init(_ plan: GooglePlan, _ requests: StoreRequests) {
        self.plan = plan
        self.requests = requests
    }

    /// Throws unless the push service has signed the notification's bearer for us.
    func verify(_ authorization: String?, now: WallTime, until deadline: MonotonicTime) async throws(StorefrontFault) {
        guard let authorization, authorization.prefix(7).lowercased() == "bearer " else { throw .notAuthentic(reason: "bearer") }
        let bearer = Array(authorization.utf8.dropFirst(7))
        var checked = check(bearer, try await keys(within: Self.keySeconds.fresh, until: deadline), now)
        if case .failure(let fault) = checked, fault.isForUnknownKey {
            checked = check(bearer, try await keys(within: Self.keySeconds.unknown, until: deadline), now)
        }
        guard case .success(let token) = checked else { throw .notAuthentic(reason: "bearer") }
        guard token.isEmailVerified, token.email == plan.pushEmail else { throw .notAuthentic(reason: "email") }
    }

    private func check(_ bearer: [UInt8], _ keys: KeySet, _ now: WallTime) -> Result<IDToken, IDTokenFault> {
        IDTokenRules(
            provider: "google", issuers: ["https://accounts.google.com", "accounts.google.com"], clientIDs: [plan.audience], keys: keys,
            unnamedNonce: .ignored
        ).verify(bearer.rawBytes, nonce: nil, now: now)
    }

    private func keys(within seconds: UInt64, until deadline: MonotonicTime) async throws(StorefrontFault) -> KeySet {
        let now = requests.now.monotonic
        @Sendable func isYounger(_ keys: Keys, than seconds: UInt64) -> Bool { now.nanoseconds(since: keys.at) < seconds * 1_000_000_000 }
        do throws(StorefrontFault) {
            return try await keys.value(where: { isYounger($0, than: seconds) }) { () async throws(StorefrontFault) in
                try await self.fetchKeys(until: deadline)
            }.set
        } catch {
            guard let last = await keys.last, isYounger(last, than: Self.keySeconds.last) else { throw error }
            return last.set
        }
    }

    private func fetchKeys(until deadline: MonotonicTime) async throws(StorefrontFault) -> Keys {
        let answer = try await requests.send(plan.keysURL, [], until: deadline)
        do throws(KeyFault) {
            return Keys(set: try KeySet(jwks: answer.content.rawBytes), at: requests.now.monotonic)
        } catch {
            throw .unavailable(reason: "Google's keys cannot be read: \(error)", retryAfterSeconds: 60)
        }
    }

    /// The answer of the API; nil if it knows no such purchase. With `body` it is a POST.
    func ask(_ path: String, body: [UInt8]? = nil, until deadline: MonotonicTime) async throws(StorefrontFault) -> StoreRequests.Answer? {
        var refused: String?
        // A token may be revoked before its end: then a new one is bought, once.
        for _ in 0..<2 {
            let token = try await token(besides: refused, until: deadline)
            let answer = try await requests.send(plan.apiURL + path, ["Authorization: Bearer \(token)"], body: body, until: deadline)
            switch answer.status {
            case 200..<300: return answer
            case 400, 404, 410: return nil
            case 401: refused = token
            case let status: throw StorefrontFault(status: status)
            }
        }
        throw .unavailable(reason: "the API refuses the service account's token", retryAfterSeconds: 60, isKeyRefused: true)
    }

    private func token(besides refused: String?, until deadline: MonotonicTime) async throws(StorefrontFault) -> String {
        let now = requests.now.monotonic
        return try await tokens.value(where: { $0.until > now && $0.text != refused }) { () async throws(StorefrontFault) in
            try await self.buyToken(until: deadline)
        }.text
    }

    private func buyToken(until deadline: MonotonicTime) async throws(StorefrontFault) -> Token {
        let now = requests.now
        let assertion: String
        do throws(KeyFault) {
            assertion = try plan.account.assertion(for: plan.tokenURL, now: now.wall)
        } catch {
            throw .unavailable(reason: "\(error)", retryAfterSeconds: 60)
        }
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
        let answer = try await requests.send(
            plan.tokenURL, [], body: Array(form.utf8), bodyType: "application/x-www-form-urlencoded", until: deadline)
        guard answer.isSuccess, let text = answer.payload["access_token"].text, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            let seconds = answer.payload["expires_in"].integer, seconds > 0
        else {
            throw .unavailable(
                reason: "the token endpoint answers with the status \(answer.status) and no token", retryAfterSeconds: 60,
                isKeyRefused: (400..<404).contains(answer.status))
        }
        // A minute early, for clocks and for the way.
        return Token(text: text, until: now.monotonic.advanced(milliseconds: UInt64(min(max(seconds - 60, 1), 86_400)) * 1_000))
    }
}
