import Accounts
import Gate
import HTTP
import Wire

/// The endpoints of the second factor (`TOLLGATE_FACTOR`).
extension AccountEndpoints {
    static let factorRows = [
        factorRow("", .get, "", showFactors), factorRow("-enrol", .post, "/totp", enrolFactor),
        factorRow("-confirm", .post, "/totp/verify", confirmFactor), factorRow("-verify", .post, "/verify", proveFactor),
        factorRow("-backup", .post, "/backup-codes", makeBackupCodes), factorRow("-remove", .delete, "/totp", removeFactor),
    ]

    private static func factorRow(
        _ name: String, _ method: HTTP.Method, _ path: String, _ answer: @escaping Answer
    ) -> CatalogueEndpoint {
        row("factors\(name)", method, "/factors\(path)", owner: .factors, answer)
    }

    private func factors() throws(Failure) -> Factors {
        // A reload has just removed them: the next request finds no endpoint.
        guard let factors = life.factors else { throw failure(.unavailable(retryAfterSeconds: 1)) }
        return factors
    }

    private func showFactors() async throws(Failure) -> LocalResponse { try await showFactors(try request.requiredSession()) }

    private func showFactors(_ session: CallerSession) async throws(Failure) -> LocalResponse {
        let factors = try factors()
        let (open, factor) = try await call(await factors.state(session), refused: refusal)
        return .json { json in
            json.beginObject()
            json.array("factors", factor.map { [$0] } ?? []) { json, factor in factor.write(to: &json) }
            json.field("backup_codes", factor?.backupCodes ?? 0)
            json.write("proven_at", open.factorAt)
            json.endObject()
        }
    }

    private func enrolFactor() async throws(Failure) -> LocalResponse {
        let session = try await requireRecentSignIn(request, services)
        try await call(await life.own.charge(session.user))
        let factors = try factors()
        let (secret, uri) = try await call(await factors.enrol(session, by: request.caller), refused: refusal)
        return .json { json in
            json.beginObject()
            json.field("secret", secret)
            json.field("uri", uri)
            json.endObject()
        }
    }

    private func confirmFactor() async throws(Failure) -> LocalResponse { try await proveFactor(enrols: true) }

    private func proveFactor() async throws(Failure) -> LocalResponse { try await proveFactor(enrols: false) }

    private func proveFactor(enrols: Bool) async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        let (code, factors) = (try request.required("code"), try factors())
        try await call(await factors.prove(code, enrols: enrols, session, by: request.caller), refused: refusal)
        return try await showFactors(session)
    }

    private func makeBackupCodes() async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        try await call(await life.own.charge(session.user))
        let factors = try factors()
        let codes = try await call(await factors.makeBackupCodes(session, by: request.caller), refused: refusal)
        return .json { json in
            json.beginObject()
            json.array("backup_codes", codes) { json, code in json.string(code) }
            json.endObject()
        }
    }

    private func removeFactor() async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        try await call(await life.own.charge(session.user))
        let factors = try factors()
        try await call(await factors.remove(session, by: request.caller), refused: refusal)
        return .done
    }

    private func refusal(_ refusal: FactorRefusal) -> Failure {
        switch refusal {
        case .recency(let refusal): Failure(refusal, in: dialect)
        case .none: Failure(404, "NO_FACTOR", "The account has no second factor.")
        case .exists: Failure(409, "FACTOR_EXISTS", "The account has a second factor. Remove it before another one is set up.")
        case .wrongCode: Failure(401, "INVALID_CODE", "The code is wrong, spent or expired")
        }
    }
}
