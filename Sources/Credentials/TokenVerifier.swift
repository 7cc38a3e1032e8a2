package import Wire

/// Verifies JSON Web Tokens (RFC 7519) under the rules of RFC 8725. One per worker: it owns contexts and scratch memory
/// that are used again for every token.
package struct TokenVerifier: ~Copyable {
    /// The algorithm that the last token named, where it named a known one; for metrics.
    package private(set) var lastAlgorithm: SigningAlgorithm?

    package init() {}

    /// Any bytes may be passed as the token. No text of an unverified token appears in the answer.
    package mutating func verify(
        _ token: RawSpan, trust: Trust, now: WallTime
    ) -> Result<VerifiedToken, TokenFault> { .failure(.malformed) }
}
