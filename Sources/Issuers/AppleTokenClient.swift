package import Accounts
package import Credentials
internal import Fetch
internal import Threads
internal import Wire

/// The key for Sign in with Apple (`TOLLGATE_APPLE_KEY`).
package struct AppleKeyPlan: Sendable {
    let key: SigningKey
    let keyID: String
    let team: String
    let url: String

    /// `pem` is the private key (`.p8`).
    package init(pem: RawSpan, keyID: String, team: String, url: String) throws(KeyFault) {
        key = try SigningKey(pem: pem, algorithm: .ES256)
        self.keyID = keyID
        self.team = team
        self.url = url
    }
}

/// Exchanges and revokes tokens of Sign in with Apple.
package final class AppleTokenClient: Sendable {
    private let transfers = TransferThread(
        name: "apple", TransferThread.Limits(underWay: 4, queued: 64, queuedMilliseconds: 3_000))

    package init() {}

    /// Aborts all requests and ends the thread. Blocks.
    package func stop() { transfers.stop() }

    /// Apple's server by the key of a plan.
    package func server(_ plan: AppleKeyPlan) -> any AppleTokens { Server(plan: plan, transfers: transfers) }

    private struct Server: AppleTokens {
        /// Apple takes client secrets of at most six months.
        private static let secretSeconds: Int64 = 300

        let plan: AppleKeyPlan
        let transfers: TransferThread

        func redeem(code: String, client: String) async throws(AppleTokenFault) -> String {
            let answer = try await send("token", [("code", code), ("grant_type", "authorization_code")], client)
            do throws(RequestObject.Fault) {
                if let token = try RequestObject(answer).text("refresh_token"), !token.isEmpty { return token }
            } catch {}
            throw .unavailable("the answer to a code has no refresh_token")
        }

        func revoke(token: String, client: String) async throws(AppleTokenFault) {
            _ = try await send("revoke", [("token", token), ("token_type_hint", "refresh_token")], client)
        }

        /// The content of a 200.
        private func send(_ path: String, _ members: [(String, String)], _ client: String) async throws(AppleTokenFault) -> [UInt8] {
            let form = [("client_id", client), ("client_secret", try secret(for: client))] + members
            let body = form.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
            // A code is good once.
            var transfer = HTTPTransfer(
                url: "\(plan.url)/auth/\(path)", connectMilliseconds: 2_000, totalMilliseconds: 8_000, largestBody: 65_536,
                body: Array(body.utf8), isSentOnce: true)
            transfer.bodyType = "application/x-www-form-urlencoded"
            let answer = await transfers.send(transfer)
            if let problem = answer.problem { throw .unavailable(problem) }
            if answer.status == 200 { return answer.body }
            var code: String?
            do throws(RequestObject.Fault) { code = try RequestObject(answer.body).text("error") } catch {}
            // RFC 6749 5.2: other faults are of our key, which the operator may mend.
            if answer.status == 400, code == "invalid_grant" { throw .refused }
            throw .unavailable("Apple answers \(answer.status) \(visible(code ?? "without an error code"))")
        }

        private func secret(for client: String) throws(AppleTokenFault) -> String {
            do throws(KeyFault) {
                return try plan.key.assertion(
                    by: plan.team, for: "https://appleid.apple.com", keyID: plan.keyID, "sub", client, seconds: Self.secretSeconds,
                    now: SystemClock.now().wall)
            } catch {
                throw .unavailable(error.message)
            }
        }
    }
}
