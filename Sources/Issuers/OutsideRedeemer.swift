package import Accounts
package import Credentials
internal import Gate
internal import Threads
package import Wire

/// An outside issuer whose subjects stand for accounts, and whose refresh tokens are redeemed at its own endpoint.
package struct RedeemingIssuer: Sendable {
    /// With the keys in force.
    package let issuer: TrustedIssuer
    /// The contract that its apps speak (`refresh-contract=`).
    package let contract: ContractID
    package let clockSkewSeconds: Int64

    package init(issuer: TrustedIssuer, contract: ContractID, clockSkewSeconds: Int64) {
        self.issuer = issuer
        self.contract = contract
        self.clockSkewSeconds = clockSkewSeconds
    }
}

/// Redeems apps' refresh tokens at outside issuers, and verifies whose access token comes back. The new tokens are dropped: the
/// app gets ours.
package struct OutsideRedeemer: Sendable {
    /// Bytes of a refresh token at most.
    private static let maxToken = 8_192

    private let issuers: @Sendable () -> [RedeemingIssuer]
    private let refreshes: TokenRefreshes
    private let refresher: ExternalRefresher
    /// An issuer's tokens are signed with a key that is not known here.
    private let keysWanted: @Sendable (_ issuer: String) -> Void

    /// `issuers` is read for each token, since a reload may change it.
    package init(
        issuers: @escaping @Sendable () -> [RedeemingIssuer], refresher: ExternalRefresher,
        keysWanted: @escaping @Sendable (_ issuer: String) -> Void
    ) {
        self.issuers = issuers
        self.keysWanted = keysWanted
        self.refresher = refresher
        refreshes = TokenRefreshes(own: { _ in .refused }, outside: refresher)
    }

    /// `address` is the client's, which may hold a share of the flights.
    package func redeem(_ token: String, _ contract: ContractID, from address: IPAddress?) async -> OutsideRefresh.Outcome {
        guard RefreshedTokens.isSendable(Array(token.utf8)), token.utf8.count <= Self.maxToken,
            let asked = issuer(of: token, contract)
        else { return .refused }
        if let seconds = refresher.pause(of: asked.issuer.name, from: address?.limitPrefix) {
            return .paused(retryAfterSeconds: Int(seconds))
        }
        let order = RefreshOrder(issuer: asked.issuer.name, isOwn: false, user: "", session: "", token: Array(token.utf8))
        let answer = await withCheckedContinuation { continuation in
            refreshes.refresh(order, from: address) { continuation.resume(returning: $0) }
        }
        switch answer.outcome {
        case .refused: return .refused
        case .unavailable(let seconds): return .unavailable(retryAfterSeconds: Int(seconds))
        case .refreshed(let tokens): return subject(of: tokens.access, insteadOf: token, asked)
        }
    }

    /// The one issuer that may have issued the token: a JWT has its `iss`, so that no other issuer, and no token of the gateway's
    /// own, is shown to it. nil if there are several.
    private func issuer(of token: String, _ contract: ContractID) -> RedeemingIssuer? {
        let found = issuers().filter { candidate in
            guard candidate.contract == contract else { return false }
            let claims = token.withRawBytes { UnverifiedClaims($0, userClaim: candidate.issuer.userClaim) }
            return claims.map { $0.issuer == candidate.issuer.issuer } ?? true
        }
        return found.count == 1 ? found.first : nil
    }

    /// The subject of a verified access token. One of another user than the refresh token names, if it is a JWT, is refused.
    private func subject(of access: [UInt8], insteadOf token: String, _ asked: RedeemingIssuer) -> OutsideRefresh.Outcome {
        var verifier = TokenVerifier()
        let trust = Trust(issuers: [asked.issuer], clockSkewSeconds: asked.clockSkewSeconds)
        switch verifier.verify(access.rawBytes, trust: trust, now: SystemClock.now().wall) {
        case .failure(let fault):
            if fault.issuerOfUnknownKey ?? fault.issuerWithoutKeys != nil { keysWanted(asked.issuer.name) }
            return .unavailable(retryAfterSeconds: 1)
        case .success(let verified):
            let user = verified.userID.text
            let named = token.withRawBytes { UnverifiedClaims($0, userClaim: asked.issuer.userClaim) }?.user
            guard !verified.hasActor, named == nil || named == user,
                let source = IdentitySource(trustLine: asked.issuer.name), let key = IdentityKey(source, subject: user)
            else { return .refused }
            return .subject(key)
        }
    }
}
