"""The load: members with sessions of three contracts, and callers that press against the limits. Each knows what it may be
answered, and hands every answer to the judge."""
import asyncio
import json
import time
from collections import deque

import model
from http1 import Connection, NoAnswer
from model import Ask, ENDED, ENDING, ENDPOINT, HASHING, ROUTE, Session, Tiers

ADMIN_TOKEN = "the-operator-of-the-chaos-suite"
PASSWORD = "correct horse battery"


class Contract:
    """The endpoints of a contract and where it keeps the tokens in an answer."""

    def __init__(self, name, sign_up, sign_in, refresh, refresh_field):
        self.name, self.sign_up, self.sign_in, self.refresh, self.refresh_field = name, sign_up, sign_in, refresh, refresh_field

    def pair(self, answer, refresh=None):
        """The access and refresh token of an answer; `refresh` stands in where the contract does not rotate."""
        said = answer.json()
        said = said.get("session") or said.get("tokens") or said
        access = said.get("access_token") or said.get("sessionToken") or said.get("access")
        return (access, said.get("refresh_token") or said.get("refreshToken") or said.get("refresh") or refresh) if access else None


CONTRACTS = [
    Contract("dlauth", "/auth/signup", "/auth/signin", "/auth/token/refresh", "refresh_token"),
    Contract("anonymous", "/auth/user", None, "/auth/refresh", "refreshToken"),
    Contract("password", "/api/v1/auth/register", "/api/v1/auth/login", "/api/v1/auth/refresh", "refresh"),
]


class Client:
    """A device with connections to all gateways, and an address of its own by X-Forwarded-For."""

    def __init__(self, number, gateways, judge, random):
        self.number, self.gateways, self.judge, self.random = number, gateways, judge, random
        self.connections, self.nonce = {}, 0

    @property
    def name(self):
        return f"client {self.number}"

    async def ask(self, gateway, what, parts, method, target, token=None, body=None, admin=False, spare=False, refusals=()):
        """The question as it is judged, and its answer or NoAnswer. `spare`: over a connection of its own."""
        fields = {"X-Forwarded-For": f"10.7.{self.number // 250}.{self.number % 250 + 1}", "X-User-Id": "forged"}
        if token:
            fields["Authorization"] = f"Bearer {token}"
        if body is not None:
            body = json.dumps(body).encode()
        connection = Connection() if spare else self.connections.setdefault((gateway.name, admin), Connection())
        asked = Ask(self.name, gateway, what, parts, time.time(), incarnation=gateway.incarnation, refusals=refusals)
        try:
            answer = await connection.ask(gateway.admin if admin else gateway.address, method, target, fields, body)
        except NoAnswer as failure:
            answer = failure
        asked.received = time.time()
        if spare:
            connection.close()
        return asked, answer

    def close(self):
        for connection in self.connections.values():
            connection.close()

    def next_nonce(self):
        self.nonce += 1
        return f"n={self.number}-{self.nonce}"


class Member(Client):
    """A user with an account of one contract: looks, orders, refreshes, changes the tier, signs out and in again.

    The session goes OPEN -> ENDING (a sign-out is on its way) -> ENDED, and then a new one is opened.
    """

    # Seconds between two actions, at least and at most.
    pace = (0.02, 0.25)

    def __init__(self, number, gateways, judge, random, orders):
        super().__init__(number, gateways, judge, random)
        self.contract = CONTRACTS[number % len(CONTRACTS)]
        self.email = f"member{number}.{random.getrandbits(32):x}@example.org"
        self.orders = orders
        self.session, self.user, self.tiers = None, None, Tiers()
        self.ended = deque(maxlen=6)
        # Access tokens that a refresh has replaced.
        self.replaced = deque(maxlen=20)
        # A change of tier whose answer was lost may still take effect late; then the tier is left alone.
        self.has_account, self.may_change_tier, self.tier_in_doubt = False, True, False

    @property
    def name(self):
        return f"member {self.number} ({self.contract.name}, {self.user or self.email})"

    def gateway(self):
        return self.random.choice(self.gateways)

    async def run(self, until):
        actions = [(self.look, 8), (self.order, 4), (self.read, 4), (self.enter, 4), (self.refresh, 2), (self.refresh_twice, 1),
                   (self.change_tier, 1), (self.sign_out, 1), (self.look_back, 3),
                   (self.look_late, 1)]
        choices = [action for action, weight in actions for _ in range(weight)]
        while not until.is_set():
            await self.step(self.random.choice(choices))
            await asyncio.sleep(self.random.uniform(*self.pace))

    async def step(self, action):
        """One action, or first the one that it needs."""
        if self.session is None:
            return await self.open()
        if self.session.state == ENDING and action != self.look:
            return await self.sign_out()
        if self.session.expires_at() < time.time() + 4:
            return await self.refresh()
        await action()

    # MARK: sessions

    async def open(self):
        """Signs up, and in again later."""
        gateway = self.gateway()
        body = {"email": self.email, "password": PASSWORD}
        if self.contract.name == "anonymous":
            asked, answer = await self.ask(gateway, "a sign-up", ENDPOINT, "POST", self.contract.sign_up)
            if self.judge.is_definite(asked, answer) and answer.status != 429:
                self.tiers, self.user = Tiers(), None
                self.may_change_tier, self.tier_in_doubt = True, False
                self.opened(asked, answer)
            return
        if not self.has_account:
            asked, answer = await self.ask(gateway, "a sign-up", ENDPOINT + (HASHING,), "POST", self.contract.sign_up, body=body)
            if not self.judge.is_definite(asked, answer) or answer.status == 429:
                return
            self.has_account = True
            # One whose answer was lost has made the account.
            if answer.status == 200 or answer.status == 201:
                self.opened(asked, answer)
            return
        asked, answer = await self.ask(gateway, "a sign-in", ENDPOINT + (HASHING,), "POST", self.contract.sign_in, body=body)
        if self.judge.signed_in(asked, answer, self.user):
            self.opened(asked, answer)

    def opened(self, asked, answer):
        pair = self.contract.pair(answer)
        if pair is None:
            return self.judge.ledger.violated("a sign-in gives tokens", asked, answer)
        said = model.claims(pair[0])
        if self.user not in (None, said["sub"]):
            self.judge.ledger.violated(f"a sign-in is to the caller's own account, {self.user}", asked, answer)
        self.user = said["sub"]
        self.session = Session(said["sub"], said["sid"], pair[0], pair[1], self.contract.name)

    async def send_refresh(self, token, gateway, spare=False):
        return await self.ask(gateway, "a refresh", ENDPOINT, "POST", self.contract.refresh,
                              body={self.contract.refresh_field: token}, spare=spare, refusals=(400,))

    def take(self, asked, answer):
        """Judges the answer of a refresh, and keeps the pair."""
        session = self.session
        pair = self.contract.pair(answer, session.refresh) if getattr(answer, "status", None) == 200 else None
        goes_on = self.judge.refreshed(asked, session, answer, pair)
        if goes_on:
            self.replaced.append(session.access)
            session.access, session.refresh = pair
        elif goes_on is False:
            # A sign-out whose answer was lost has ended it; or it is reported, and a new one is opened.
            session.state, session.ended_at = ENDED, asked.received
            self.forget()
        return pair

    async def refresh(self):
        self.take(*await self.send_refresh(self.session.refresh, self.gateway()))

    async def refresh_twice(self):
        """As two tabs of an app do."""
        token = self.session.refresh
        both = await asyncio.gather(self.send_refresh(token, self.gateway()), self.send_refresh(token, self.gateway(), spare=True))
        session, pairs = self.session, []
        for asked, answer in both:
            if self.session is session:
                pairs.append(self.take(asked, answer))
        if len(pairs) == 2 and None not in pairs:
            self.judge.same_pair(*both[1], *pairs)

    async def sign_out(self):
        session, gateway = self.session, self.gateway()
        session.state = ENDING
        session.sign_outs += 1
        if self.contract.name == "password":
            asked, answer = await self.ask(gateway, "the end of a session", ENDPOINT, "DELETE", f"/admin/api/sessions/{session.id}",
                                           ADMIN_TOKEN, admin=True, refusals=(404,))
            if not self.judge.is_definite(asked, answer):
                return
            if answer.status not in (200, 204, 404) or (answer.status == 404 and session.sign_outs < 2):
                return self.judge.ledger.violated("the admin API ends a session", asked, answer)
            session.state, session.ended_at = ENDED, asked.received
            self.judge.ledger.count("sign-outs")
            return self.forget()
        asked, answer = await self.ask(gateway, "a sign-out", ENDPOINT, "POST", "/auth/signout", session.access)
        if self.judge.signed_out(asked, session, answer):
            self.forget()
        elif getattr(answer, "status", None) == 401:
            await self.refresh()

    def forget(self):
        self.ended.append((self.session, self.tiers))
        self.session = None

    # MARK: routes

    async def look(self, gateway=None, session=None):
        session, nonce = session or self.session, self.next_nonce()
        asked, answer = await self.ask(gateway or self.gateway(), "/me", ROUTE, "GET", f"/me?{nonce}", session.access)
        self.judge.route(asked, session, answer, nonce)
        return asked, answer

    async def order(self):
        session, nonce = self.session, self.next_nonce()
        order = f"{self.number}-{self.nonce}"
        self.orders[order] = (session.user, None)
        asked, answer = await self.ask(self.gateway(), "an order", ROUTE, "POST", f"/orders?{nonce}", session.access,
                                       {"order": order})
        self.judge.route(asked, session, answer, nonce)
        self.orders[order] = (session.user, getattr(answer, "status", None))

    async def read(self, gateway=None):
        session, nonce = self.session, self.next_nonce()
        asked, answer = await self.ask(gateway or self.gateway(), "/passages", ROUTE, "GET", f"/passages?{nonce}", session.access)
        self.judge.passages(asked, session, self.tiers, answer, nonce)

    async def enter(self, gateway=None):
        session, nonce = self.session, self.next_nonce()
        asked, answer = await self.ask(gateway or self.gateway(), "/premium", ROUTE, "GET", f"/premium?{nonce}", session.access)
        self.judge.premium(asked, session, self.tiers, answer, nonce)

    async def change_tier(self):
        if not self.may_change_tier:
            return
        tier = "free" if self.tiers.tier == "premium" else "premium"
        if self.tiers.history[-1][1] == float("inf"):
            tier = self.tiers.history[-1][0]
        else:
            self.tiers.asked(tier)
        asked, answer = await self.ask(self.gateway(), f"the tier {tier}", ENDPOINT, "PUT", f"/admin/api/users/{self.user}/tier",
                                       ADMIN_TOKEN, {"tier": tier}, admin=True)
        if not self.judge.is_definite(asked, answer):
            self.tier_in_doubt = True
            return
        if answer.status != 200:
            return self.judge.ledger.violated("the admin API sets a tier", asked, answer)
        self.judge.ledger.count("changes of tier")
        self.tiers.settled(asked.received)
        self.may_change_tier = not self.tier_in_doubt

    async def look_back(self):
        """Tries a session that has ended, with its access and at times with its refresh token."""
        if not self.ended:
            return
        session, _ = self.random.choice(list(self.ended))
        if self.random.random() < 0.8:
            await self.look(session=session)
        else:
            asked, answer = await self.send_refresh(session.refresh, self.gateway())
            pair = self.contract.pair(answer, session.refresh) if getattr(answer, "status", None) == 200 else None
            self.judge.refreshed(asked, session, answer, pair)

    async def look_late(self):
        """Tries a token that has expired."""
        for token in list(self.replaced):
            expired_at = model.claims(token)["exp"]
            if expired_at + model.SKEW + 1 < time.time():
                asked, answer = await self.ask(self.gateway(), "/me with an expired token", ROUTE, "GET", "/me", token)
                self.judge.late(asked, expired_at, answer)
                self.replaced.remove(token)
                return

    # MARK: the end

    async def check_all(self):
        """With everything whole: each action at each gateway must succeed."""
        while self.session is None or self.session.state == ENDING:
            await (self.open() if self.session is None else self.sign_out())
        for gateway in self.gateways:
            await self.refresh()
            await self.look(gateway)
            await self.read(gateway)
            await self.enter(gateway)
            await self.order()
            for session, _ in list(self.ended):
                await self.look(gateway, session)


class Presser(Client):
    """A member who asks a limited route for more than it grants, over several connections."""

    def __init__(self, number, gateways, judge, random, route, pause):
        super().__init__(number, gateways, judge, random)
        self.member = Member(number, gateways, judge, random, {})
        self.member.contract = CONTRACTS[1]
        self.route, self.pause = route, pause

    async def run(self, until):
        while not until.is_set():
            if self.member.session is None or self.member.session.expires_at() < time.time() + 4:
                await self.member.step(self.member.refresh)
                await asyncio.sleep(0.05)
                continue
            await asyncio.gather(*(self.press(gateway) for gateway in self.gateways))
            await asyncio.sleep(self.pause)

    async def press(self, gateway):
        session, nonce = self.member.session, self.next_nonce()
        asked, answer = await self.ask(gateway, self.route, ROUTE, "GET", f"{self.route}?{nonce}", session.access)
        self.judge.counted(asked, session, answer, nonce)

    def close(self):
        super().close()
        self.member.close()
