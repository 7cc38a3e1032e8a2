"""Users set up and use passkeys and second factors until their gateway is gone, and look at what is left of it.

killed.py URL: prints a line for each step that was answered. Once it is told the URL of a gateway over the same database, it prints a line
for each answer that is not as wanted, and last the number of checks.
"""

import http.client
import os
import sys
import threading
import time
import urllib.error

import pyotp

import app
from app import Gateway, Phone, check, code, tokens

USERS = 4
PATH = "/account/factors/"


class User:
    """Each list has what was answered, and so counts from then on."""

    def __init__(self):
        self.phones, self.registered, self.signed_in, self.codes, self.spent, self.left = [], [], [], [], [], []
        self.bearer = None

    def registers(self, gate, contract=None):
        phone = Phone()
        options = gate.invited(contract, self.bearer)
        body = {"credential": phone.made(options), **({"contract": contract} if contract else {})}
        status, answer = gate.post("registration/verify", body, self.bearer)
        check("registration", status, 200 if contract else 201)
        self.registered.append(body)
        self.phones.append(phone)
        if contract:
            _, self.bearer, _ = tokens(contract, (status, answer))

    def signs_in(self, gate):
        used = self.phones[0].used(gate.post("authentication/options?contract=dlauth")[1])
        answer = gate.post("authentication/verify?contract=dlauth", used)
        check("sign-in", answer[0], 200)
        self.signed_in.append(used)
        _, self.bearer, _ = tokens("dlauth", answer)

    def enrols(self, gate):
        self.app = pyotp.parse_uri(gate.ask("POST", PATH + "totp", {}, self.bearer)[1]["uri"])
        self.proves(gate, "totp/verify", self.app.at(time.time()), self.codes)

    def proves(self, gate, path, text, known):
        check(path, gate.ask("POST", PATH + path, {"code": text}, self.bearer)[0], 200)
        known.append(text)

    def keeps_codes(self, gate):
        self.left = gate.ask("POST", PATH + "backup-codes", {}, self.bearer)[1]["backup_codes"]

    def spends(self, gate):
        text = self.left.pop()
        self.proves(gate, "verify", text, self.spent)

    def steps(self):
        later = lambda gate: self.proves(gate, "verify", self.app.at(time.time() + 30), self.codes)
        return [
            lambda gate: self.registers(gate, "dlauth"), self.registers, self.signs_in, self.enrols, later, self.keeps_codes, self.spends,
            self.spends]

    def looks(self, gate):
        """Nothing of it is lost, and nothing passes twice."""
        if not self.bearer:
            return
        check("passkeys", {phone.id for phone in self.phones} <= {p["id"] for p in gate.listed(self.bearer)}, True)
        for body in self.registered:
            check("registration again", code(gate.post("registration/verify", body, self.bearer)), (400, "PASSKEY_INVALID"))
        for used in self.signed_in:
            again = gate.post("authentication/verify?contract=dlauth", used)
            check("sign-in again", code(again), (400, "PASSKEY_INVALID"))
        for text in self.codes + self.spent:
            check("code again", gate.ask("POST", PATH + "verify", {"code": text}, self.bearer)[0], 401)
        if self.codes:
            check("proof", gate.ask("GET", "/bank", bearer=self.bearer)[0], 200)
        if self.left:
            check("backup code", gate.ask("POST", PATH + "verify", {"code": self.left[0]}, self.bearer)[0], 200)


def lives(url, users):
    while True:
        user, gate = User(), Gateway(url)
        users.append(user)
        for step in user.steps():
            try:
                step(gate)
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError):
                return
            # One write, so that no line is torn.
            os.write(1, b"step\n")


def main():
    lists = [[] for _ in range(USERS)]
    threads = [threading.Thread(target=lives, args=(sys.argv[1], users)) for users in lists]
    for thread in threads:
        thread.start()
    gate = Gateway(sys.stdin.readline().strip())
    for thread in threads:
        thread.join()
    for user in sum(lists, []):
        user.looks(gate)
    print("checked", app.checks)


main()
