"""The promises of the gateways, as a judge of single answers. Pure: times and answers are passed in.

An answer is judged by what its client knows (the session, the tier, the token), by the moments between which the gateway
worked on it, and by the troubles that the suite has made then.
"""
import base64
import json
from dataclasses import dataclass, field

# Seconds after which an ended session or another tier counts on every gateway that reaches the database. One is promised; the
# rest is for a machine that is busy with other tests.
PROMISE = 1.0
BUSY = 4.0
# TOLLGATE_CLOCK_SKEW of the gateways, and the seconds within which a change of a gateway's clock takes effect.
SKEW = 2.0
CLOCK_DELAY = 3.0

# The parts that a request may need. Redis is not among them: limits go on without it.
GATEWAY, ACCOUNTS, UPSTREAM = "gateway", "accounts", "upstream"
# What a route needs: the tier of a user who is not cached is looked up.
ROUTE = (GATEWAY, ACCOUNTS, UPSTREAM)
ENDPOINT = (GATEWAY, ACCOUNTS)
# Passwords are hashed in a bounded queue.
HASHING = "hashing"


def claims(token):
    """The claims of a JWT, unverified."""
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


@dataclass
class Violation:
    statement: str
    ask: "Ask | None"
    answer: object

    def __str__(self):
        text = self.statement
        if self.ask:
            text += f"\n    {self.ask.client} asked {self.ask.what} of {self.ask.gateway.name}"
            text += f" at {self.ask.sent:.3f}, answered at {self.ask.received:.3f}"
        if self.answer is not None:
            status = getattr(self.answer, "status", None)
            said = f"{status} {self.answer.body[:300]!r}" if status else f"no answer: {self.answer}"
            text += f"\n    {said}\n    request id {getattr(self.answer, 'request_id', 'none')}"
        return text


@dataclass
class Ledger:
    """Counts of checked answers, and the violations."""

    checked: dict = field(default_factory=dict)
    violations: list = field(default_factory=list)
    report: object = print

    def count(self, what, number=1):
        self.checked[what] = self.checked.get(what, 0) + number

    def require(self, least):
        """A violation for each kind of check that was made less often than `least` says: a run that checks nothing passes nothing."""
        for what, number in least.items():
            if self.checked.get(what, 0) < number:
                self.violated(f"the run checks {what}: {self.checked.get(what, 0)}, not {number} or more")

    def violated(self, statement, ask=None, answer=None):
        violation = Violation(statement, ask, answer)
        self.violations.append(violation)
        if len(self.violations) <= 10:
            self.report(f"VIOLATED: {violation}")


class Troubles:
    """Which gateway was without which part, and when."""

    def __init__(self):
        self.past = []

    def begin(self, part, gateways, now):
        """Answers what `end` takes."""
        made = [[part, gateway, now, float("inf")] for gateway in gateways]
        self.past += made
        return made

    def end(self, made, now):
        for trouble in made:
            trouble[3] = now

    def excuse(self, gateway, parts, sent, received):
        """Whether a request may have failed because of a trouble."""
        return any(part in parts and whom == gateway and begin <= received and sent <= end
                   for part, whom, begin, end in self.past)

    def whole_since(self, gateway, parts):
        """The end of the last such trouble; infinite while one lasts."""
        return max((end for part, whom, _, end in self.past if part in parts and whom == gateway), default=0.0)


@dataclass
class Ask:
    """One request: who asked what of which gateway, and between which moments."""

    client: str
    gateway: object
    what: str
    parts: tuple
    sent: float
    received: float = 0.0
    incarnation: int = 0
    # Statuses of malformed requests by which this one may be refused.
    refusals: tuple = ()


OPEN, ENDING, ENDED = "open", "ending", "ended"


@dataclass
class Session:
    """A session as its client knows it. `ENDING`: a sign-out was sent, and its outcome is unknown."""

    user: str
    id: str
    access: str
    refresh: str
    contract: str
    state: str = OPEN
    ended_at: float = 0.0
    # The sign-outs that were sent.
    sign_outs: int = 0
    # When each incarnation of a gateway has first been seen to refuse it.
    refused_by: dict = field(default_factory=dict)

    def expires_at(self):
        return claims(self.access)["exp"]


class Tiers:
    """The tiers that an account may have: changes are asked for, and settled when they are answered."""

    def __init__(self, tier="free"):
        self.tier = tier
        # (tier, settled at); the last is the newest. Older ones may show until the newest is settled everywhere.
        self.history = [(tier, 0.0)]

    def asked(self, tier):
        self.history.append((tier, float("inf")))

    def settled(self, now):
        self.tier = self.history[-1][0]
        self.history[-1] = (self.tier, now)

    def possible(self, since):
        """Those that an answer may show if changes settled before `since` count."""
        found = set()
        for tier, settled in reversed(self.history):
            found.add(tier)
            if settled <= since:
                break
        return found


class Judge:
    def __init__(self, ledger, troubles):
        self.ledger, self.troubles = ledger, troubles
        self.slowest_end = 0.0

    # MARK: every answer

    def is_definite(self, ask, answer):
        """Whether the answer is one of the service and not of its failure. A failure needs an excuse."""
        self.ledger.count("answers")
        status = getattr(answer, "status", None)
        if status is not None and answer.request_id == "none":
            self.ledger.violated("every answer has X-Request-Id", ask, answer)
        if status in (429, 503) and not answer.fields.get("retry-after", "").isdigit():
            self.ledger.violated(f"{status} has Retry-After", ask, answer)
        if status is not None and status < 500:
            if status in (400, 404, 405, 408, 413, 431) and status not in ask.refusals:
                self.ledger.violated("a well-formed request is not refused as malformed", ask, answer)
                return False
            return True
        self.ledger.count("failures")
        if status == 500:
            self.ledger.violated("a gateway never answers 500", ask, answer)
        elif HASHING in ask.parts and status == 503:
            self.ledger.count("busy sign-ins")
        elif not self.troubles.excuse(ask.gateway.name, ask.parts, ask.sent - self.patience(answer), ask.received):
            self.ledger.violated(f"with {', '.join(ask.parts)} whole a request is served", ask, answer)
        return False

    def patience(self, answer):
        """The seconds in which a gateway need not have noticed that a part is whole again: what it says itself, at most two."""
        after = getattr(answer, "fields", {}).get("retry-after", "")
        return min(2, int(after)) if after.isdigit() else 0

    def effective(self, ask):
        """Changes that were settled by this moment count for the request: none while the gateway cannot reach the database."""
        moment = ask.sent - PROMISE - BUSY
        return moment if self.troubles.whole_since(ask.gateway.name, ENDPOINT) <= moment else 0.0

    # MARK: routes

    def route(self, ask, session, answer, nonce):
        """An answer of a route that shows the identity. Whether the caller was let through."""
        if not self.is_definite(ask, answer):
            return False
        if answer.status == 401:
            self.refused(ask, session, answer)
            return False
        if answer.status != 200:
            return True
        said = answer.json()
        identity = said.get("identity", {})
        self.ledger.count("identities")
        if identity.get("x-user-id") != session.user:
            self.ledger.violated(f"the upstream is told the caller's own id, {session.user}", ask, answer)
        elif identity.get("x-session-id") != session.id:
            self.ledger.violated(f"the upstream is told the caller's own session, {session.id}", ask, answer)
        elif said.get("query") != nonce:
            self.ledger.violated(f"an answer belongs to its request, {nonce}", ask, answer)
        self.accepted(ask, session, answer)
        return True

    def accepted(self, ask, session, answer):
        if session.state != ENDED:
            return
        self.ledger.count("looks at ended sessions")
        refused = session.refused_by.get((ask.gateway.name, ask.incarnation))
        if refused is not None and refused < ask.sent:
            self.ledger.violated(f"a session that {ask.gateway.name} has refused is not revived", ask, answer)
        elif session.ended_at <= self.effective(ask):
            self.ledger.violated(f"a session that ended at {session.ended_at:.3f} is refused", ask, answer)
        else:
            since = max(session.ended_at, self.troubles.whole_since(ask.gateway.name, ENDPOINT))
            self.slowest_end = max(self.slowest_end, ask.sent - since)

    def late(self, ask, expired_at, answer):
        """A token that has expired by every clock."""
        if not self.is_definite(ask, answer):
            return
        self.ledger.count("looks at expired tokens")
        clock = ask.gateway.clock(ask.sent - CLOCK_DELAY, ask.received)
        if answer.status != 401 and expired_at + SKEW + 1 < ask.sent + min(clock):
            self.ledger.violated("an expired token is refused", ask, answer)

    def refused(self, ask, session, answer):
        """401: the session has ended, or the token has expired by that gateway's clock."""
        code = answer.code()
        clock = ask.gateway.clock(ask.sent - CLOCK_DELAY, ask.received)
        if code == "TOKEN_EXPIRED":
            if session.expires_at() > ask.received + max(clock) + 1:
                self.ledger.violated("a token is good until it expires", ask, answer)
        elif session.state == OPEN:
            self.ledger.violated("a session is not lost", ask, answer)
        elif code != "TOKEN_REVOKED":
            self.ledger.violated("an ended session is told as such", ask, answer)
        else:
            self.ledger.count("looks at ended sessions")
            session.refused_by.setdefault((ask.gateway.name, ask.incarnation), ask.received)

    def passages(self, ask, session, tiers, answer, nonce):
        """A filtered list: premium elements for premium callers alone."""
        if not self.route(ask, session, answer, nonce) or answer.status != 200:
            return
        shown = {passage.get("tier") for passage in answer.json().get("results", [])}
        self.ledger.count("filtered lists")
        possible = tiers.possible(self.effective(ask))
        if b"premium-text" in answer.body and "premium" not in possible:
            self.ledger.violated("premium content is not shown to a free caller", ask, answer)
        if "premium" not in shown and "free" not in possible:
            self.ledger.violated("premium content is shown to a premium caller", ask, answer)
        if "free" not in shown:
            self.ledger.violated("free content is shown to all", ask, answer)

    def premium(self, ask, session, tiers, answer, nonce):
        """A route with tier=premium."""
        if not self.route(ask, session, answer, nonce):
            return
        self.ledger.count("tier refusals" if answer.status == 403 else "tier grants")
        possible = tiers.possible(self.effective(ask))
        shown = "free" if answer.status == 403 else answer.json().get("identity", {}).get("x-user-tier")
        if answer.status not in (200, 403) or shown not in possible or (answer.status == 200 and shown != "premium"):
            self.ledger.violated(f"the tier of the caller is one of {sorted(possible)}", ask, answer)

    def counted(self, ask, session, answer, nonce):
        """A limited route."""
        if not self.route(ask, session, answer, nonce):
            return
        if answer.status == 429:
            self.ledger.count("limited")
        elif answer.status != 200:
            self.ledger.violated("a limited route answers 200 or 429", ask, answer)
        else:
            self.ledger.count("counted")

    # MARK: endpoints

    def refreshed(self, ask, session, answer, pair):
        """`pair` is the new access and refresh token, or None. Whether the session goes on; None if that is not known."""
        if not self.is_definite(ask, answer):
            return None
        self.ledger.count("refreshes")
        if answer.status != 200 or pair is None:
            if session.state == OPEN:
                self.ledger.violated("a client that refreshes properly keeps its session", ask, answer)
            return False
        if session.state == ENDED:
            self.ledger.violated("the refresh token of an ended session is refused", ask, answer)
        said = claims(pair[0])
        if said.get("sub") != session.user or said.get("sid") != session.id:
            self.ledger.violated("a refresh gives a token of the same user and session", ask, answer)
        return True

    def same_pair(self, ask, answer, first, second):
        """Two refreshes at once, whose answers are both here."""
        self.ledger.count("parallel refreshes")
        if first[1] != second[1]:
            self.ledger.violated("two refreshes at once get the same refresh token", ask, answer)

    def signed_out(self, ask, session, answer):
        """Whether the session has ended now."""
        if not self.is_definite(ask, answer):
            return False
        if answer.status == 401 and answer.code() != "TOKEN_REVOKED":
            self.refused(ask, session, answer)
            return False
        if answer.status == 401 and session.sign_outs < 2:
            self.ledger.violated("a session is not lost", ask, answer)
        if answer.status in (200, 401):
            session.state, session.ended_at = ENDED, ask.received
            self.ledger.count("sign-outs")
            return True
        self.ledger.violated("a sign-out ends the session", ask, answer)
        return False

    def signed_in(self, ask, answer, user):
        """A sign-in with the right password, of the account `user`; 429 is the limit on guesses."""
        if not self.is_definite(ask, answer):
            return False
        if answer.status == 429:
            self.ledger.count("limited sign-ins")
            return False
        self.ledger.count("sign-ins")
        if answer.status != 200:
            self.ledger.violated("an account that was made can sign in", ask, answer)
            return False
        return True

    # MARK: the upstream's record

    def orders(self, sent, recorded):
        """`sent`: the user and the status (None if unknown) of each order's id; `recorded`: (id, user) as often as it arrived."""
        arrived = {}
        for order, user in recorded:
            arrived.setdefault(order, []).append(user)
        for order, users in arrived.items():
            self.ledger.count("orders")
            if len(users) > 1:
                self.ledger.violated(f"a POST arrives once: order {order} arrived {len(users)} times")
            if order not in sent:
                self.ledger.violated(f"order {order} was sent by a client")
            elif any(user != sent[order][0] for user in users):
                self.ledger.violated(f"order {order} arrives as that of {sent[order][0]}, not of {users}")
            elif sent[order][1] is not None and not 200 <= sent[order][1] < 300 and sent[order][1] < 500:
                self.ledger.violated(f"order {order} was refused with {sent[order][1]} and must not arrive")
        for order, (user, status) in sent.items():
            if status == 200 and order not in arrived:
                self.ledger.violated(f"order {order} of {user} was answered and must have arrived")

    def ceiling(self, name, count, allowed):
        """A count of the upstream's own, under a limit's bound with its slack."""
        self.ledger.count("counts of callers")
        if count > allowed:
            self.ledger.violated(f"{name}: {count:.0f} requests arrived, at most {allowed:.0f} may")
