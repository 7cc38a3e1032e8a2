#!/usr/bin/env python3
"""Tests of the suite's own judgement: gateways of a few lines, with one promise broken at a time, must be found out."""
import asyncio
import base64
import contextlib
import itertools
import json
import random
import tempfile
import time
import types
import unittest

import clients
import faults
import limits
import model
import world
from model import ACCOUNTS, Judge, Ledger, Troubles


def token(user, session, seconds):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return f"{part({'alg': 'none'})}.{part({'sub': user, 'sid': session, 'exp': int(time.time() + seconds), 'n': random.random()})}."


class Service:
    """What the gateways share, and `broken`: the promise that is not kept. Every fifth occasion shows it."""

    def __init__(self, broken=None):
        self.broken, self.occasions = broken, 0
        # Whether every third change of accounts takes place and is answered with 503.
        self.loses_answers, self.changes = False, 0
        self.accounts, self.sessions, self.refreshes, self.ended, self.tiers = {}, {}, {}, set(), {}
        self.orders, self.last, self.numbers = [], "none", 0

    def breaks(self, promise):
        if self.broken != promise:
            return False
        self.occasions += 1
        return self.occasions % 5 == 0

    def number(self, kind):
        self.numbers += 1
        return f"{kind}-{self.numbers}"

    def pair(self, session, refresh=None):
        user = self.sessions[session]
        refresh = refresh or self.number("refresh")
        self.refreshes[refresh] = [session, None]
        return token(user, session, -100 if self.breaks("tokens expire late") else 300), refresh

    def open(self, user):
        session = self.number("session")
        self.sessions[session] = user
        return self.pair(session)

    def tier(self, user, place):
        return "free" if self.broken == "a tier stays" and place == 2 else self.tiers.get(user, "free")


class FakeGateway:
    def __init__(self, place, service):
        self.place, self.service = place, service
        self.name, self.incarnation = f"gateway-{place + 1}", 1
        self.refused_once = set()

    def clock(self, since, until):
        return [0]

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.address = self.admin = self.server.sockets[0].getsockname()[:2]

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                method, target = head[0].split(" ")[:2]
                status, said = self.answer(method, *target.partition("?")[::2], fields, json.loads(body or b"{}"))
                if method != "GET" and not target.startswith("/orders"):
                    self.service.changes += 1
                    if self.service.loses_answers and self.service.changes % 3 == 0:
                        status, said = 503, {}
                content = json.dumps(said).encode()
                more = "Retry-After: 1\r\n" if status in (429, 503) and not self.service.breaks("429 without Retry-After") else ""
                more += "" if self.service.breaks("no X-Request-Id") else "X-Request-Id: r\r\n"
                writer.write(f"HTTP/1.1 {status} X\r\n{more}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        writer.close()

    def answer(self, method, path, query, fields, body):
        service = self.service
        if service.breaks("503 for no reason"):
            return 503, {}
        if service.breaks("500"):
            return 500, {}
        if path.endswith(("/signup", "/register", "/auth/user")):
            user = service.number("user")
            if body.get("email") in service.accounts:
                return 422, {"error": "user_already_exists"}
            if "email" in body:
                service.accounts[body["email"]] = user
            return 200, self.tokens(service.open(user))
        if path.endswith(("/signin", "/login")):
            if service.breaks("an account is lost"):
                return 401, {"error": "invalid_credentials"}
            user = service.number("user") if service.breaks("a sign-in is to another account") else service.accounts[body["email"]]
            return 200, self.tokens(service.open(user))
        if path.endswith("/refresh"):
            return self.refresh(path, body.get("refresh_token") or body.get("refreshToken") or body.get("refresh"))
        if path.startswith("/admin/api/sessions/"):
            session = path.rsplit("/")[-1]
            if session in service.ended:
                return 404, {}
            service.ended.add(session)
            return 200, {}
        if path.startswith("/admin/api/users/"):
            service.tiers[path.split("/")[4]] = body["tier"]
            return 200, {}
        said = model.claims(fields["authorization"].split(" ")[1])
        user, session = said["sub"], said["sid"]
        is_over = session in service.ended
        if is_over and service.broken == "a session is revived" and self.place == 1:
            is_over = False
        if is_over and service.broken == "a refused session is revived" and session in self.refused_once:
            is_over = False
        if not is_over and service.breaks("an open session is refused"):
            is_over = True
        if is_over:
            self.refused_once.add(session)
            return 401, {"error": {"code": "TOKEN_REVOKED"}}
        if service.breaks("tokens expire early"):
            return 401, {"error": {"code": "TOKEN_EXPIRED"}}
        if path == "/auth/signout":
            service.ended.add(session)
            return 200, {}
        return self.route(path, query, user, session, body)

    def tokens(self, pair):
        return {"access_token": pair[0], "refresh_token": pair[1]}

    def refresh(self, path, refresh):
        service = self.service
        session, successor = service.refreshes[refresh]
        if (session in service.ended and service.broken != "an ended session is refreshed") or service.breaks("a refresh signs out"):
            return 401, {"error": "invalid_token"}
        if path.startswith("/api/v1"):
            return 200, {"access": service.pair(session, refresh)[0]}
        if successor is None or service.breaks("siblings"):
            successor = service.refreshes[refresh][1] = service.pair(session)
        return 200, self.tokens(successor)

    def route(self, path, query, user, session, body):
        service = self.service
        tier = service.tier(user, self.place)
        if path == "/premium" and tier != "premium":
            return 403, {"error": {"code": "PREMIUM_REQUIRED"}}
        if path == "/orders":
            if not service.breaks("an order is lost"):
                service.orders.append((body["order"], "another" if service.breaks("an order of another") else user))
            if service.breaks("a POST arrives twice"):
                service.orders.append((body["order"], user))
        if path.startswith("/counted") and random.random() < 0.5:
            return 429, {}
        identity = {"x-user-id": "another" if service.breaks("another identity") else user,
                    "x-session-id": "another" if service.breaks("another session") else session, "x-user-tier": tier}
        results = [{"tier": "free", "text": "open-text"}]
        if path == "/passages" and (tier == "premium" or service.breaks("premium content leaks")):
            results.append({"tier": "premium", "text": "premium-text"})
        service.last, previous = query, service.last
        return 200, {"identity": identity, "query": previous if service.breaks("another's answer") else query, "results": results}


# Each broken promise, and what the suite says of it.
BROKEN = {
    "a POST arrives twice": "a POST arrives once", "an order is lost": "must have arrived", "an order of another": "arrives as that of",
    "another identity": "own id", "another session": "own session", "another's answer": "belongs to its request",
    "an open session is refused": "a session is not lost", "a refresh signs out": "keeps its session",
    "a session is revived": "that ended at", "a refused session is revived": "is not revived",
    "an ended session is refreshed": "the refresh token of an ended session", "siblings": "the same refresh token",
    "premium content leaks": "not shown to a free caller", "a tier stays": "the tier of the caller", "503 for no reason": "is served",
    "500": "never answers 500", "tokens expire early": "until it expires", "tokens expire late": "expired token",
    "an account is lost": "can sign in", "a sign-in is to another account": "own account",
    "429 without Retry-After": "429 has Retry-After", "no X-Request-Id": "every answer has X-Request-Id",
}


async def trial(broken, seconds=2.0, loses_answers=False, least=None):
    """The violations of members and pressers at gateways that break a promise, or none."""
    ledger = Ledger(report=lambda text: None)
    judge, service, orders = Judge(ledger, Troubles()), Service(broken), {}
    service.loses_answers = loses_answers
    gateways = [FakeGateway(place, service) for place in range(3)]
    trouble = judge.troubles.begin(ACCOUNTS, [gateway.name for gateway in gateways] if loses_answers else [], time.time())
    for gateway in gateways:
        await gateway.start()
    people = [clients.Member(number, gateways, judge, random.Random(number), orders) for number in range(12)]
    people.append(clients.Presser(20, gateways, judge, random.Random(20), "/counted/exact", 0.02))
    until = asyncio.Event()
    tasks = [asyncio.create_task(client.run(until)) for client in people]
    deadline = time.monotonic() + 20 * seconds
    end = time.monotonic() + seconds
    # Without a broken promise for the whole time, and for longer where a busy machine has not checked more than `least` says by then;
    # with one until it is found.
    def is_enough():
        return broken is None and time.monotonic() >= end and all(ledger.checked.get(what, 0) > n for what, n in (least or {}).items())
    while time.monotonic() < deadline and not is_enough():
        await asyncio.sleep(0.1)
        judge_orders(judge, orders, service, ledger, broken)
        if broken and any(BROKEN[broken] in violation.statement for violation in ledger.violations):
            break
    until.set()
    await asyncio.gather(*tasks)
    service.loses_answers = False
    judge.troubles.end(trouble, time.time())
    if broken is None:
        await asyncio.gather(*(client.check_all() for client in people[:-1]))
    judge.orders(orders, service.orders)
    for client in people:
        client.close()
    for gateway in gateways:
        gateway.server.close()
    return ledger


def judge_orders(judge, orders, service, ledger, broken):
    """Judges the orders so far without keeping what it says of those under way."""
    trial = Ledger(report=lambda text: None)
    Judge(trial, judge.troubles).orders(dict(orders), list(service.orders))
    if broken:
        ledger.violations += trial.violations


class CheckerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model.PROMISE, model.BUSY = 0.2, 0.1
        clients.Member.pace = (0.001, 0.01)

    def test_gateways_that_keep_every_promise_violate_nothing(self):
        # Orders are counted at the end, by the upstream's record.
        least = dict.fromkeys(("identities", "refreshes", "sign-outs", "sign-ins", "looks at ended sessions", "filtered lists",
                               "parallel refreshes", "tier grants", "tier refusals", "changes of tier", "limited", "counted"), 5)
        ledger = asyncio.run(trial(None, least=least))
        self.assertEqual([str(violation) for violation in ledger.violations], [])
        for what in ("orders", *least):
            self.assertGreater(ledger.checked.get(what, 0), 5, what)

    def test_changes_whose_answers_are_lost_violate_nothing(self):
        least = {"failures": 50, "sign-outs": 5}
        ledger = asyncio.run(trial(None, loses_answers=True, least=least))
        self.assertEqual([str(violation) for violation in ledger.violations], [])
        for what, number in least.items():
            self.assertGreater(ledger.checked.get(what, 0), number, what)

    def test_every_broken_promise_is_found(self):
        async def all_trials():
            return await asyncio.gather(*(trial(broken) for broken in BROKEN))
        for (broken, statement), ledger in zip(BROKEN.items(), asyncio.run(all_trials())):
            with self.subTest(broken):
                found = {violation.statement for violation in ledger.violations}
                self.assertTrue(any(statement in text for text in found), f"{broken}: only {found}")

    def test_a_failure_is_excused_by_a_trouble_of_its_gateway_and_part_alone(self):
        troubles = Troubles()
        made = troubles.begin(ACCOUNTS, ["gateway-1"], 10.0)
        self.assertTrue(troubles.excuse("gateway-1", model.ENDPOINT, 11, 12))
        self.assertFalse(troubles.excuse("gateway-2", model.ENDPOINT, 11, 12))
        self.assertFalse(troubles.excuse("gateway-1", (model.UPSTREAM,), 11, 12))
        troubles.end(made, 20.0)
        self.assertTrue(troubles.excuse("gateway-1", model.ENDPOINT, 19, 22))
        self.assertFalse(troubles.excuse("gateway-1", model.ENDPOINT, 20.1, 22))
        self.assertFalse(troubles.excuse("gateway-1", model.ENDPOINT, 8, 9))

    def test_a_limit_has_slack_for_faults_alone(self):
        self.assertEqual(limits.Slack([], set()).allowed(20, 10), 0)
        self.assertEqual(limits.Slack([(10, 20)], set()).allowed(20, 10), 30)
        self.assertEqual(limits.Slack([(10, 20)], set()).allowed(20, 10, 30, 40), 0)
        self.assertEqual(limits.Slack([], {100, 101}).allowed(20, 10, 90, 110), 50)
        self.assertEqual(limits.Slack([], {100, 101}).allowed(20, 10, 103, 110), 0)

        class World:
            def recorded(self, kind):
                # 20 a second and a burst of 10: 30 and no more may arrive within no time and the second for lateness.
                yield from [("/counted/exact", "ada", 100.0)] * self.count
        for count, violations in [(30, 0), (31, 1)]:
            counted, ledger = World(), Ledger(report=lambda text: None)
            counted.count = count
            limits.compare(counted, limits.Slack([], set()), Judge(ledger, Troubles()))
            self.assertEqual(len(ledger.violations), violations)

    def test_limits_are_counted_in_redis_unless_a_fault_of_that_gateway_or_of_redis_explains_it(self):
        def found(seconds, spans, clock=(), alone=11, pauses=()):
            """The violations and the odd seconds, where gateway-1 has counted `alone` of 40 requests for itself in `seconds`."""
            ledger, gateways = Ledger(report=lambda text: None), [Clocked("gateway-1", clock), Clocked("gateway-2", ())]
            sources = {"gateway-1": {100: (0, 40), **{second: (alone, 40) for second in seconds}}, "gateway-2": {100: (0, 40)}}
            odd = limits.check_shared(gateways, sources, spans, Judge(ledger, Troubles()), pauses)
            return [violation.statement for violation in ledger.violations], odd
        both = ["gateway-1", "gateway-2"]
        self.assertEqual(found([], []), ([], 0))
        self.assertEqual(found([200, 210, 220], []), ([], 3))
        self.assertEqual(found([200, 210, 220, 230], []), ([
            "limits are counted in Redis while it is whole; not in the 4 seconds 200 by gateway-1 (11 of 40), "
            "210 by gateway-1 (11 of 40), 220 by gateway-1 (11 of 40), 230 by gateway-1 (11 of 40)"], 4))
        self.assertEqual(found(range(200, 260), [], alone=10), ([], 0))
        self.assertEqual(found(range(200, 260), [], alone=40)[1], 60)
        self.assertEqual(found(range(199, 226), [(both, 200, 220)])[1], 0)
        self.assertEqual(found(range(199, 226), [(["gateway-1"], 200, 220)])[1], 0)
        self.assertEqual(found([197, 198, 226, 227], [(both, 200, 220)])[1], 4)
        # The machine paused from 200.9 to 201.5, in three seconds in a row at most.
        self.assertEqual(found([200, 201, 202], [], pauses=[(200.9, 201.5)])[1], 0)
        self.assertEqual(found(range(198, 205), [], pauses=[(200.9, 201.5)])[1], 4)
        # A fault of another gateway, one of no gateway, and a gateway that has lost Redis for good after a fault.
        self.assertEqual(found(range(200, 220), [(["gateway-2"], 200, 220)])[1], 20)
        self.assertEqual(found(range(200, 220), [([], 200, 220)])[1], 20)
        self.assertEqual(found(range(200, 260), [(both, 200, 210)])[1], 44)
        # Its clock is an hour ahead from 300 to 320, and the fault is at 310.
        clock = [(300, 3600), (320, 0)]
        self.assertEqual(found(range(3910, 3915), [(both, 310, 315)], clock)[1], 0)
        self.assertEqual(found(range(310, 315), [(both, 310, 315)], clock)[1], 0)
        self.assertEqual(found(range(3940, 3945), [(both, 340, 345)], clock)[1], 5)
        self.assertEqual(found(range(3910, 3915), [(both, 340, 345)], clock)[1], 5)

    def test_the_access_logs_say_where_limits_were_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, lines in enumerate([[("redis", 7), ("fallback", 7), ("lease", 8)], [("fallback", 9), ("deny_cache", 9)]]):
                with open(f"{folder}/output-{number + 1}", "w") as log:
                    log.write('{"msg":"listening"}\n{"msg":"access","status":200}\n')
                    log.writelines(f'{{"limit_outcome":"allow","limit_source":"{source}","limit_remaining":3,"limit_at":{at}000123}}\n'
                                   for source, at in lines)
            sources = limits.sources([types.SimpleNamespace(name="gateway-1", folder=folder)])
        self.assertEqual(sources, {"gateway-1": {7: (1, 2), 8: (0, 1), 9: (1, 2)}})
        self.assertEqual(limits.fallbacks(sources), {7, 9})

    def test_a_run_that_checks_too_little_of_a_kind_fails(self):
        for count, violations in [(0, 1), (19, 1), (20, 0)]:
            ledger = Ledger(report=lambda text: None)
            ledger.count("identities")
            ledger.count("limited", count)
            ledger.require({"identities": 1, "limited": 20})
            self.assertEqual(len(ledger.violations), violations)

    def test_gateways_count_for_themselves_in_faults_of_theirs_or_of_redis_alone(self):
        names = ["gateway-1", "gateway-2", "gateway-3"]
        system = types.SimpleNamespace(redis=types.SimpleNamespace(has_replicas=True), names=names, upstreams=[0, 1, 2])
        for kind in faults.KINDS:
            fault = kind(system, random.Random(1))
            expected = {"gateway-killed": 1, "gateway-stopped": 1, "gateway-restarted": 1, "slots-move": 0, "nodes-parted": 3}
            number = expected.get(fault.name, 3 if fault.name.startswith("redis-") else 0)
            self.assertEqual(len(fault.counts_alone()), number, fault.name)

    def test_slots_move_in_a_cluster_alone(self):
        for name, expected in [("single", False), ("cluster", True), ("sentinel", False)]:
            system = types.SimpleNamespace(redis=types.SimpleNamespace(name=name, has_replicas=True), names=["gateway-1"])
            rounds = itertools.islice(faults.plan(system, random.Random(1)), 100)
            self.assertEqual("slots-move" in {fault.name for round in rounds for fault in round}, expected)


class Clocked(world.Gateway):
    """A gateway's clock without the gateway."""

    def __init__(self, name, offsets):
        self.name, self.offsets = name, [(0.0, 0), *offsets]


if __name__ == "__main__":
    unittest.main()
