"""An app whose users have passkeys: fido2 reads the options, soft-webauthn makes the credentials.

app.py BEARERS URL [URL]: BEARERS is JSON of contract names and access tokens of users without passkeys, whose contract may be "guest".
Prints a line for each answer that is not as wanted, and last the number of checks.
"""

import json
import os
import sys
import threading
import urllib.error
import urllib.request
from struct import pack

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
import fido2.features
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode, websafe_encode
from fido2.webauthn import PublicKeyCredentialCreationOptions, PublicKeyCredentialRequestOptions
from soft_webauthn import SoftWebauthnDevice

# The JSON form of WebAuthn, not the one that fido2 had before.
fido2.features.webauthn_json_mapping.enabled = True

ORIGIN = "https://example.org"
CONTRACTS = ["password", "provider", "apple", "dlauth", "anonymous"]
checks = 0


def check(what, got, wanted):
    global checks
    checks += 1
    if got != wanted:
        print(f"{what}: {got!r}, not {wanted!r}")


class Phone(SoftWebauthnDevice):
    """With a finger on its sensor, which soft-webauthn's device has not, and a counter only if it is asked for."""

    verified = 4
    counts = False

    def made(self, options):
        parsed = PublicKeyCredentialCreationOptions.from_dict(options)
        check("residentKey", str(parsed.authenticator_selection.resident_key.value), "required")
        created = super().create({"publicKey": {
            "rp": {"id": parsed.rp.id}, "user": {"id": parsed.user.id}, "challenge": parsed.challenge, "attestation": "none",
            "pubKeyCredParams": [{"alg": p.alg, "type": p.type.value} for p in parsed.pub_key_cred_params]}}, ORIGIN)
        attestation = cbor.decode(created["response"]["attestationObject"])
        data = bytearray(attestation["authData"])
        data[32] |= self.verified
        attestation["authData"] = bytes(data)
        created["response"]["attestationObject"] = cbor.encode(attestation)
        return in_json(created)

    def used(self, options):
        parsed = PublicKeyCredentialRequestOptions.from_dict(options)
        check("verification", (str(parsed.user_verification.value), options["allowCredentials"]), ("required", []))
        self.sign_count += 1 if self.counts else 0
        client = json.dumps({"type": "webauthn.get", "challenge": websafe_encode(parsed.challenge), "origin": ORIGIN}).encode()
        data = sha256(self.rp_id.encode()) + bytes([1 | self.verified]) + pack(">I", self.sign_count)
        return in_json({
            "id": None, "rawId": self.credential_id, "type": "public-key",
            "response": {
                "authenticatorData": data, "clientDataJSON": client, "userHandle": self.user_handle,
                "signature": self.private_key.sign(data + sha256(client), ec.ECDSA(hashes.SHA256()))}})

    @property
    def id(self):
        return websafe_encode(self.credential_id)


def in_json(credential):
    """The JSON form of WebAuthn."""
    raw = websafe_encode(credential["rawId"])
    response = {name: websafe_encode(value) for name, value in credential["response"].items()}
    return {"id": raw, "rawId": raw, "type": "public-key", "response": response, "clientExtensionResults": {}}


class Gateway:
    def __init__(self, url):
        self.url = url

    def ask(self, method, path, body=None, bearer=None):
        """The status and the object of an answer."""
        request = urllib.request.Request(self.url + path, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        request.add_header("User-Agent", "Passages/3.2 (iPhone)")
        if bearer:
            request.add_header("Authorization", "Bearer " + bearer)
        try:
            with urllib.request.urlopen(request) as answer:
                status, text, fields = answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as answer:
            status, text, fields = answer.code, answer.read(), answer.headers
        self.challenge = fields.get("WWW-Authenticate")
        return status, json.loads(text) if text and "json" in fields.get("Content-Type", "") else None

    def post(self, what, body=None, bearer=None):
        return self.ask("POST", "/account/passkeys/" + what, {} if body is None else body, bearer)

    def invited(self, contract=None, bearer=None, **more):
        status, options = self.post("registration/options", {**({"contract": contract} if contract else {}), **more}, bearer)
        check("options", status, 200)
        return options

    def added(self, phone, bearer, **more):
        return self.post("registration/verify", {"credential": phone.made(self.invited(bearer=bearer)), **more}, bearer)

    def signed_up(self, phone, contract, bearer=None, **more):
        options = self.invited(contract, bearer, **more)
        return self.post("registration/verify", {"credential": phone.made(options), "contract": contract}, bearer)

    def signed_in(self, phone, contract, bearer=None):
        status, options = self.post("authentication/options?contract=" + contract)
        check("options", status, 200)
        return self.post("authentication/verify?contract=" + contract, phone.used(options), bearer)

    def listed(self, bearer):
        return self.ask("GET", "/account/passkeys", bearer=bearer)[1]["passkeys"]


def code(answer):
    """The status and code of a refusal, in whatever dialect."""
    status, body = answer
    error = body.get("error") if isinstance(body, dict) else None
    found = (error or {}).get("code") if isinstance(error, dict) else body.get("code") or error
    return status, str(found).upper()


def tokens(contract, answer):
    """The id, access token and refresh token of a contract's own sign-in."""
    body = answer[1]
    try:
        return {
            "password": lambda: (body["user"]["id"], body["tokens"]["access"], body["tokens"]["refresh"]),
            "provider": lambda: (body["user"]["id"], body["accessToken"], body["refreshToken"]),
            "apple": lambda: (body["body"]["userId"], body["body"]["token"], None),
            "dlauth": lambda: (body["user"]["id"], body["session"]["access_token"], body["session"]["refresh_token"]),
            "anonymous": lambda: (body["userId"], body["sessionToken"], body["refreshToken"]),
        }[contract]()
    except (KeyError, TypeError):
        print(f"{contract} answers {answer}")
        return "", "", ""


def sign_ups(gates):
    """A passkey alone opens an account of each contract, and signs in to it at every gateway."""
    for contract in CONTRACTS:
        phone = Phone()
        answer = gates[0].signed_up(phone, contract, name="Ada's phone")
        check(contract + " sign-up", answer[0], 201 if contract == "password" else 200)
        user, access, _ = tokens(contract, answer)
        check("handle", phone.user_handle.hex(), user.replace("-", ""))
        for gate in gates:
            answer = gate.signed_in(phone, contract)
            check(contract + " sign-in", (answer[0], tokens(contract, answer)[0]), (200, user))
        listed = gates[-1].listed(access)
        check("list", [(p["id"], p["name"], p["backed_up"]) for p in listed], [(phone.id, "Ada's phone", False)])
        check("used", listed[0]["last_used_at"] is not None, True)
        _, account = gates[-1].ask("GET", "/account", bearer=access)
        check("guest", (account["guest"], account["identities"]), (False, []))
        # It signs in at the other contracts, too.
        other = CONTRACTS[(CONTRACTS.index(contract) + 1) % len(CONTRACTS)]
        check("elsewhere", tokens(other, gates[0].signed_in(phone, other))[0], user)


def renewals(gates):
    """A sign-in within a session of the same account and contract renews it; with another bearer it opens a session."""
    def claims(token):
        return json.loads(websafe_decode(token.split(".")[1])) if token else {}

    phone, other = Phone(), Phone()
    user, access, _ = tokens("dlauth", gates[0].signed_up(phone, "dlauth"))
    _, theirs, _ = tokens("dlauth", gates[0].signed_up(other, "dlauth"))
    again, renewed, refresh = tokens("dlauth", gates[-1].signed_in(phone, "dlauth", access))
    old, new = claims(access), claims(renewed)
    check("renewed", (again, new["sid"], new["auth_time"] >= old["auth_time"]), (user, old["sid"], True))
    check("refresh", gates[0].ask("POST", "/auth/token/refresh", {"refresh_token": refresh})[0], 200)
    known = {old["sid"], claims(theirs)["sid"]}
    for contract, bearer in (("dlauth", theirs), ("password", access), ("dlauth", access[:-8] + "AAAAAAAA"), ("dlauth", None)):
        found, opened, _ = tokens(contract, gates[0].signed_in(phone, contract, bearer))
        check("opened", (found, claims(opened)["sid"] in known), (user, False))
        known.add(claims(opened)["sid"])
    check("sessions", len(gates[0].ask("GET", "/account/sessions", bearer=renewed)[1]["sessions"]), 5)


def additions(gates, bearers):
    """Users of every contract add a passkey to their accounts, and rename and remove it."""
    for contract, bearer in bearers.items():
        gate, phone = gates[-1], Phone()
        status, added = gate.added(phone, bearer)
        check(contract + " adds", (status, added.get("name")), (201, "Passages on iPhone"))
        user = gate.ask("GET", "/account", bearer=bearer)[1]["id"]
        check("signs in", tokens("dlauth", gates[0].signed_in(phone, "dlauth"))[0], user)
        check("excluded", [c["id"] for c in gate.invited(bearer=bearer)["excludeCredentials"]], [phone.id])
        path = "/account/passkeys/" + phone.id
        status, renamed = gate.ask("PATCH", path, {"name": " Ω "}, bearer)
        check("rename", (status, renamed["name"], [p["name"] for p in gate.listed(bearer)]), (200, "Ω", ["Ω"]))
        check("long name", gate.ask("PATCH", path, {"name": "x" * 65}, bearer)[0], 400)
        check("export", [p["name"] for p in gate.ask("GET", "/account/export", bearer=bearer)[1]["passkeys"]], ["Ω"])
        if contract == "guest":
            check("guest", gate.ask("GET", "/account", bearer=bearer)[1]["guest"], False)
            check("last", code(gate.ask("DELETE", path, bearer=bearer)), (409, "LAST_IDENTITY"))
            continue
        _, other, _ = tokens("dlauth", gate.signed_in(phone, "dlauth"))
        check("remove", gate.ask("DELETE", path, bearer=bearer)[0], 204)
        check("again", code(gate.ask("DELETE", path, bearer=bearer)), (404, "NOT_FOUND"))
        check("ended", gate.ask("GET", "/account", bearer=other)[0], 401)
        check("gone", code(gate.signed_in(phone, "dlauth")), (401, "PASSKEY_UNKNOWN"))


def guests(gates):
    """A guest that signs up by a passkey keeps its id, and is merged no more."""
    gate, phone = gates[0], Phone()
    user, bearer, _ = tokens("anonymous", gate.ask("POST", "/auth/user", {}))
    check("joined", tokens("dlauth", gate.signed_up(phone, "dlauth", bearer))[0], user)
    check("no guest", code(gate.post("registration/options", {"contract": "dlauth"}, bearer)), (409, "NOT_A_GUEST"))
    _, taker, _ = tokens("dlauth", gate.signed_up(Phone(), "dlauth"))
    check("merge", code(gate.ask("POST", "/account/merge", {"guest_token": bearer}, taker)), (409, "NOT_A_GUEST"))


def refusals(gates, bearer):
    gate, phone, other = gates[0], Phone(), Phone()
    _, mine, _ = tokens("dlauth", gate.signed_up(phone, "dlauth"))
    _, theirs, _ = tokens("dlauth", gate.signed_up(other, "dlauth"))
    refused = (400, "PASSKEY_INVALID")
    # One challenge: of one account, one purpose, one contract, one use.
    credential = Phone().made(gate.invited(bearer=mine))
    check("other account", code(gate.post("registration/verify", credential, theirs)), refused)
    check("other purpose", code(gate.post("registration/verify", {"credential": credential, "contract": "dlauth"})), refused)
    check("right account", gate.post("registration/verify", credential, mine)[0], 201)
    check("registered", code(gate.post("registration/verify", credential, mine)), refused)
    options = gate.post("authentication/options?contract=dlauth")[1]
    used = phone.used(options)
    check("other contract", code(gate.post("authentication/verify?contract=password", used)), refused)
    check("first use", gate.post("authentication/verify?contract=dlauth", used)[0], 200)
    check("replay", code(gates[-1].post("authentication/verify?contract=dlauth", used)), refused)
    check("replay of it all", code(gate.post("authentication/verify?contract=dlauth", phone.used(options))), refused)
    # The same answer in the dialect of each contract, and the same options for each name.
    for contract in CONTRACTS:
        check(contract + " unknown", code(gate.signed_in(stranger(), contract)), (401, "PASSKEY_UNKNOWN"))
        check("challenge", gate.challenge.startswith("Bearer"), True)
        known = [gate.post("authentication/options?contract=" + contract, body)[1] for body in ({}, {"email": "ada@example.org"})]
        for options in known:
            check("length", len(options.pop("challenge")) > 100, True)
        check("names", known[0], known[1])
    broken = phone.used(gate.post("authentication/options?contract=dlauth")[1])
    broken["response"]["signature"] = other.used(gate.post("authentication/options?contract=dlauth")[1])["response"]["signature"]
    check("signature", code(gate.post("authentication/verify?contract=dlauth", broken)), refused)
    handled = phone.used(gate.post("authentication/options?contract=dlauth")[1])
    handled["response"]["userHandle"] = websafe_encode(other.user_handle)
    check("handle", code(gate.post("authentication/verify?contract=dlauth", handled)), refused)
    phone.verified = 0
    check("no finger", code(gate.signed_in(phone, "dlauth")), refused)
    check("no finger at sign-up", code(gate.signed_up(unverified(), "dlauth")), refused)
    for body in ({}, {"credential": {}}, {"credential": 7}, {"id": "x"}):
        check(f"{body}", gate.post("authentication/verify?contract=dlauth", body)[0], 400)
        check(f"{body}", gate.post("registration/verify", {**body, "contract": "dlauth"})[0], 400)
    check("no contract", gate.post("authentication/options")[0], 400)
    check("no such contract", gate.post("authentication/options?contract=nonsense")[0], 400)
    check("no bearer", gate.post("registration/options")[0], 401)
    check("nonsense", gate.ask("DELETE", "/account/passkeys/%25", bearer=mine)[0], 404)
    check("others'", code(gate.ask("DELETE", "/account/passkeys/" + other.id, bearer=mine)), (404, "NOT_FOUND"))
    check("others' name", code(gate.ask("PATCH", "/account/passkeys/" + other.id, {"name": "x"}, mine)), (404, "NOT_FOUND"))
    # A deleted account.
    check("delete", gate.ask("DELETE", "/account", bearer=theirs)[0], 204)
    check("deleted", code(gate.signed_in(other, "dlauth")), (401, "PASSKEY_UNKNOWN"))


def stranger():
    phone = Phone()
    phone.cred_init("example.org", os.urandom(16))
    return phone


def unverified():
    phone = Phone()
    phone.verified = 0
    return phone


def counters(gates):
    """A counter that falls signs in all the same."""
    phone = Phone()
    phone.counts = True
    user, access, _ = tokens("dlauth", gates[0].signed_up(phone, "dlauth"))
    for count in (5, 6, 2, 3):
        phone.sign_count = count - 1
        check("count", tokens("dlauth", gates[0].signed_in(phone, "dlauth"))[0], user)
    events = gates[-1].ask("GET", "/account/export", bearer=access)[1]["events"]
    check("fell", [event["detail"] for event in events if event["kind"] == "passkey-counter-fell"], ["6 to 2"])
    print(user)


def races(gates):
    """One answer that is sent to all gateways at once counts once."""
    phone = Phone()
    gates[0].signed_up(phone, "dlauth")
    for attempt in range(10):
        used = phone.used(gates[0].post("authentication/options?contract=dlauth")[1])
        new, statuses = Phone().made(gates[0].invited("password")), {"sign-in": [], "sign-up": []}

        def send(gate):
            statuses["sign-in"].append(gate.post("authentication/verify?contract=dlauth", used)[0])
            statuses["sign-up"].append(gate.post("registration/verify", {"credential": new, "contract": "password"})[0])

        threads = [threading.Thread(target=send, args=(Gateway(gate.url),)) for gate in gates * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check("race", sorted(statuses["sign-in"]), [200] + [400] * (len(threads) - 1))
        check("race", sorted(statuses["sign-up"]), [201] + [400] * (len(threads) - 1))


def main():
    bearers, gates = json.loads(sys.argv[1]), [Gateway(url) for url in sys.argv[2:]]
    sign_ups(gates)
    additions(gates, bearers)
    renewals(gates)
    guests(gates)
    refusals(gates, bearers["dlauth"])
    counters(gates)
    races(gates)
    print("checked", checks)


if __name__ == "__main__":
    main()
