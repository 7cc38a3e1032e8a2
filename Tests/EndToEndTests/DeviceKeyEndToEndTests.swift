import Foundation
import TestServers
import TestThreads
import Testing

/// Sessions that are bound to the key of a device, with proofs that other implementations make.
@Suite(.ownThread, .enabled(if: PythonTools.hasProofMakers)) struct DeviceKeyEndToEndTests {
    /// `proof(maker, key, path, base, **claims)` and what an app does with it.
    private static let app = """
        import base64, hashlib, json, sys, time, threading, uuid, requests
        from joserfc import jwt
        from joserfc.jwk import ECKey, OKPKey, RSAKey
        import jwcrypto.jwk, jwcrypto.jwt

        class Joserfc:
            def __init__(self, alg):
                self.alg = alg
                self.key = {"ES256": lambda: ECKey.generate_key("P-256"), "EdDSA": lambda: OKPKey.generate_key("Ed25519"),
                            "RS256": lambda: RSAKey.generate_key(2048)}[alg]()
                self.thumbprint = self.key.thumbprint()
            def sign(self, claims):
                head = {"typ": "dpop+jwt", "alg": self.alg, "jwk": self.key.as_dict(private=False)}
                return jwt.encode(head, claims, self.key, algorithms=[self.alg])

        class Jwcrypto:
            def __init__(self, alg):
                self.alg = alg
                kind = {"ES256": dict(kty="EC", crv="P-256"), "EdDSA": dict(kty="OKP", crv="Ed25519"), "RS256": dict(kty="RSA", size=2048)}
                self.key = jwcrypto.jwk.JWK.generate(**kind[alg])
                self.thumbprint = self.key.thumbprint()
            def sign(self, claims):
                head = {"typ": "dpop+jwt", "alg": self.alg, "jwk": self.key.export_public(as_dict=True)}
                token = jwcrypto.jwt.JWT(header=head, claims=claims)
                token.make_signed_token(self.key)
                return token.serialize()

        def proof(device, base, path, **other):
            return device.sign({"jti": str(uuid.uuid4()), "htm": "POST", "htu": base + path, "iat": int(time.time())} | other)

        def post(base, path, body, device=None, field=None):
            field = field or (device and proof(device, base, path))
            return requests.post(base + path, json=body, headers={"DPoP": field} if field else {})

        def jkt(token):
            payload = token.split(".")[1]
            return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).get("cnf", {}).get("jkt")

        def said(answer):
            body = answer.json()
            error = body.get("error")
            code = error.get("code") if isinstance(error, dict) else body.get("code") or error
            return f"{answer.status_code} {code}".upper()

        """

    private func script(_ text: String, _ arguments: String...) throws -> [String] {
        let outcome = try run(PythonTools.python, ["-c", Self.app + text] + arguments, seconds: 300)
        guard outcome.code == 0 else { throw Fault(outcome.complaints) }
        return outcome.output.split(separator: "\n").map(String.init)
    }

    private static func base(_ gateway: Gateway) -> String { "http://127.0.0.1:\(gateway.port)" }

    @Test func proofsOfOtherImplementationsBindSessions() throws {
        let gateway = try Gateway(
            """
            \(Gateway.contracts)
            \(Gateway.trustingProxies)
            TOLLGATE_INTERNAL_SERVICE=key-sha256=\(try run("sha256sum", [], input: "key").output.prefix(64))
            """)
        let lines = try script(
            """
            base = sys.argv[1]
            for number, (maker, alg) in enumerate((m, a) for m in (Joserfc, Jwcrypto) for a in ("ES256", "EdDSA", "RS256")):
                device, thief = maker(alg), maker(alg)
                # A proxy that is trusted names the host of the client.
                named = {"DPoP": proof(device, "https://api.test", "/auth/signup"), "X-Forwarded-Host": "api.test", "X-Forwarded-Proto": "https"}
                person = {"email": f"a{number}@example.org", "password": "correct horse"}
                opened = requests.post(base + "/auth/signup", json=person, headers=named).json()["session"]
                path, body = "/auth/token/refresh", {"refresh_token": opened["refresh_token"]}
                assert jkt(opened["access_token"]) == device.thumbprint
                assert said(post(base, path, body)) == "401 DEVICE_PROOF_REQUIRED"
                assert said(post(base, path, body, thief)) == "401 DEVICE_PROOF_INVALID"
                stale = post(base, path, body, field=proof(device, base, path, iat=int(time.time()) - 100))
                assert said(stale) == "400 DEVICE_PROOF_INVALID" and "invalid_dpop_proof" in stale.headers["WWW-Authenticate"] and stale.headers["Date"]
                assert said(post(base, path, body, field=proof(device, "http://localhost:9", path))) == "400 DEVICE_PROOF_INVALID"
                public = proof(device, "http://localhost:8000", path)
                answer = post(base, path, body, field=public)
                assert answer.status_code == 200 and jkt(answer.json()["access_token"]) == device.thumbprint
                assert said(post(base, path, body, field=public)) == "400 DEVICE_PROOF_INVALID"
                # By OAuth, and the end.
                form = {"grant_type": "refresh_token", "refresh_token": answer.json()["refresh_token"]}
                field = lambda path: {"DPoP": proof(device, base, path)}
                assert requests.post(base + "/oauth/token", form).json()["error"] == "invalid_dpop_proof"
                tokens = requests.post(base + "/oauth/token", form, headers=field("/oauth/token")).json()
                assert tokens["token_type"] == "DPoP", tokens
                known = requests.post(base + "/oauth/introspect", {"token": tokens["access_token"]}, headers={"X-Internal-Key": "key"}).json()
                assert (known["token_type"], known["cnf"]) == ("DPoP", {"jkt": device.thumbprint}), known
                for token in tokens["access_token"], tokens["refresh_token"]:
                    assert requests.post(base + "/oauth/revoke", {"token": token}).json()["error"] == "invalid_dpop_proof"
                assert requests.post(base + "/oauth/revoke", {"token": tokens["refresh_token"]}, headers=field("/oauth/revoke")).status_code == 200
                assert said(post(base, path, {"refresh_token": tokens["refresh_token"]}, device)) == "401 INVALID_TOKEN"
                print(maker.__name__, alg)
            """, Self.base(gateway))
        #expect(lines.count == 6, "\(lines)")
    }

    /// Ten thousand tries with every token of the session, over gateways that share a database; the owner refreshes all the while.
    @Test func aThiefWithoutTheKeyGetsNothingAndTheOwnersSessionLivesOn() throws {
        let fleet = try Fleet(2, .postgres)
        let lines = try script(
            """
            bases = sys.argv[1:]
            device, thief = Joserfc("ES256"), Jwcrypto("EdDSA")
            path, got, refused = "/auth/token/refresh", [], []
            session = post(bases[0], "/auth/signup", {"email": "ada@example.org", "password": "correct horse"}, device).json()["session"]
            tokens, ended = [session["refresh_token"]], threading.Event()

            def steal(number):
                with requests.Session() as client:
                    for index in range(2_500):
                        base, token = bases[index % len(bases)], tokens[-1 - index % len(tokens)]
                        fields = {"DPoP": proof(thief, base, path)} if index % 10 == 0 else {}
                        answer = client.post(base + path, json={"refresh_token": token}, headers=fields)
                        (got if answer.status_code == 200 else refused).append(said(answer) if answer.status_code != 200 else "200")

            thieves = [threading.Thread(target=steal, args=(number,)) for number in range(4)]
            for thread in thieves: thread.start()
            turns = 0
            while any(thread.is_alive() for thread in thieves):
                base = bases[turns % len(bases)]
                answer = post(base, path, {"refresh_token": tokens[-1]}, device)
                assert answer.status_code == 200, answer.text
                tokens.append(answer.json()["refresh_token"])
                turns += 1
            for thread in thieves: thread.join()
            print(len(got), len(refused), sorted(set(refused)), turns > 10)
            """, Self.base(fleet[0]), Self.base(fleet[1]))
        #expect(lines == ["0 10000 ['401 DEVICE_PROOF_INVALID', '401 DEVICE_PROOF_REQUIRED'] True"])
        let user = try JSON(fleet.admin(0, "GET /admin/api/users/ada@example.org").text)
        #expect(user["sessions"].array.count == 1 && user["sessions"][0]["device_key"].text?.count == 43)
        let events = try JSON(fleet.admin(0, "GET /admin/api/audit?user=ada@example.org").text)["events"].array
        #expect(events.filter { $0["event"].text == "device-key-refused" }.count == 1)
    }

    @Test func oneProofRacedAtThreeGatewaysOpensOneSession() throws {
        let fleet = try Fleet(3, .redis, "TOLLGATE_PUBLIC_URL=https://gate.test\n\(Redis.patience)")
        for gateway in fleet.gateways { try gateway.waitForRedis() }
        let lines = try script(
            """
            bases, device = sys.argv[1:], Joserfc("ES256")
            for round in range(10):
                field, answers = proof(device, "https://gate.test", "/auth/user"), []
                race = [threading.Thread(target=lambda base=base: answers.append(post(base, "/auth/user", {}, field=field))) for base in bases * 3]
                for thread in race: thread.start()
                for thread in race: thread.join()
                statuses = [answer.status_code for answer in answers]
                print(statuses.count(200), statuses.count(400))
            """, Self.base(fleet[0]), Self.base(fleet[1]), Self.base(fleet[2]))
        #expect(lines == Array(repeating: "1 8", count: 10))
    }
}
