import Credentials
import HTTP
import Wire

/// `GET /admin/api/keys` and `POST /admin/api/keys/rotate`.
extension AdminAPI {
    func showKeys() -> LocalResponse {
        let (ring, issuers, now) = (gateway.controls.ring(), gateway.controls.outsideKeys(), now())
        return .json(200) { json in
            json.beginObject()
            Self.write(ring, at: now, &json)
            json.array("issuers", issuers) { json, issuer in issuer.write(&json) }
            json.endObject()
        }
    }

    func rotateKeys() async throws -> LocalResponse {
        let ring: SigningKeyRing
        do throws(RotationRefusal) {
            ring = try await gateway.controls.rotate()
        } catch {
            throw AdminRefusal(error)
        }
        let now = now()
        return .json(200) { json in
            json.beginObject()
            Self.write(ring, at: now, &json)
            json.endObject()
        }
    }

    private static func write(_ ring: SigningKeyRing?, at now: WallTime, _ json: inout JSONWriter) {
        json.array("own", ring?.entries.filter { !$0.hasEnded(now) } ?? []) { json, entry in
            json.beginObject()
            json.optional("kid", entry.key.kid)
            json.field("alg", entry.key.algorithm.name)
            switch entry.state {
            case .active: json.field("state", "current")
            case .next: json.field("state", "next")
            case .retired: json.field("state", "retired")
            }
            json.field("created_at", ISO8601.text(WallTime(seconds: entry.createdAt)))
            if case .retired(let until) = entry.state { json.field("ends_at", ISO8601.text(WallTime(seconds: until))) }
            json.endObject()
        }
    }
}

extension SigningKeyRing.Entry {
    fileprivate func hasEnded(_ now: WallTime) -> Bool {
        if case .retired(let until) = state { until <= now.seconds } else { false }
    }
}

extension OutsideKeys {
    fileprivate func write(_ json: inout JSONWriter) {
        json.beginObject()
        json.field("name", name)
        json.optional("issuer", issuer)
        json.optional("jwks_url", url)
        json.optional("file", file)
        json.field("keys", keys)
        json.optional("fetched_at", fetchedAt.map(ISO8601.text))
        json.optional("next_fetch_at", nextFetchAt.map(ISO8601.text))
        json.field("fetches", Int(clamping: fetches))
        json.field("failures", Int(clamping: failures))
        json.optional("last_fault", lastFault)
        json.endObject()
    }
}

extension AdminRefusal {
    fileprivate init(_ refusal: RotationRefusal) {
        switch refusal {
        case .secret:
            self.init(409, "CONFLICT", "Own tokens are signed with TOLLGATE_JWT_SECRET: change the secret to rotate it")
        case .underWay: self.init(409, "CONFLICT", "Another rotation is under way", [("Retry-After", "5")])
        case .failed(let reason): self.init(503, "UNAVAILABLE", "The keys were not rotated: \(reason)", [("Retry-After", "5")])
        }
    }
}
