"""Makes a history of a number: small, full of edges, and always the same."""

from dataclasses import replace
from fractions import Fraction
from random import Random

from tests.fuzz.history import MAX_AHEAD_MS, NOW_MS, Batch, Chance, History, QuotaEntry, Record
from tests.fuzz.rules_oracle import Event, Rules

NAMES = (
    "User:a", "User:b", "Group:a", "User:c", "User:ünïcode ☃", "User:\x00quarantine/:x",
    "quarantine/:produce-events/0/0",
    "overflow-07:x", "User:x:y", "unknown", "User:ANONYMOUS", "User: ", "User:a\nb", 'User:"}\n{"',
)  # fmt: skip
BAD = (
    b"", b"{", b"null", b"[]", b"{}", None, b"\xff\xfe", b'{"timestamp_ms": 1, "principal": "User:a"}', b"[" * 2000,
    b'{"timestamp_ms": 1, "principal": "User:a", "producer_id": 1}',
    *(
        b'{"timestamp_ms": %s, "principal": "%s", "after_ms": [0], "producer_ids": [%s]}' % fields
        for fields in (
            (b'"1"', b"User:a", b"1"), (b"1", b"a", b"1"), (b"4102444800000", b"User:a", b"1"),
            (b"1", b"User:a", b"-2"), (b"1", b"User:a", b"9223372036854775808"), (b"1", b"User:a", b"1, 2"),
        )
    ), b"{}\n{}",
)  # fmt: skip
CLIENT_IDS = (
    ("",), ("app",), ("app", "app", "job", ""), tuple(f"app-{number}" for number in range(20)),
    ("x" * 256, "x" * 257, "y" * 300, "other", "a"),
)  # fmt: skip
ADDRESSES = (
    ("",), ("10.0.0.7",), ("10.0.0.7", "10.0.0.8", "2001:db8::7", ""), tuple(f"10.0.0.{each}" for each in range(20)),
    ("1" * 256, "1" * 257, "2" * 300, "other", ""),
)  # fmt: skip
BURSTS = (0.1, 0.7, 1.0, 2.0, 4.0, 7.5, 30.0, 600.0)
QUOTAS = (0.1, 0.5, 1.0, 2.0, 3.0, 3.7, 5.0, 8.0, 20.0, 100.0, 1_000_000.0)
TROUBLES = ("", "", "", "blocks", "crash before the tables", "crash after the tables")
HOUR_MS = 3_600_000


SPECIAL_EVERY = 40


def history(seed: int) -> History:
    special = {7: _flood, 17: _lagging, 27: _made_up, 37: _deep_in_debt}.get(seed % SPECIAL_EVERY)
    return special(seed) if special else _Maker(seed).make()


def _made_up(seed: int) -> History:
    random = Chance(seed)
    shift = random.choice((random.randrange(55), 44, 46, 48, 50, 52))
    pids = [number << shift for number in range(300)]
    if random.random() < 0.3:
        pids = [int(f"{number:062b}"[::-1], 2) for number in range(300)]
    records = tuple(Record(0, Event(NOW_MS + number, "User:a", pid)) for number, pid in enumerate(pids))
    salt = random.randrange(2**63)
    return History(Rules(), (Batch(records, {"": 100.0}),), false_positive_rate=1e-4, salt=salt, is_made_up=True)


def _flood(seed: int) -> History:
    """Uncharged PIDs without end, late ones and learning ones, against a small cap."""
    random = Chance(seed)
    rules = Rules(learn_until_ms=random.choice((0, NOW_MS + 2 * HOUR_MS)), learn_below=random.choice((None, 900)))
    name, at, number = "User:a", NOW_MS, 0
    batches: list[Batch] = []
    for _ in range(4):
        at += random.choice((1000, rules.quantum_ms))
        learning, late = random.choice(((False, 3), (True, 0), (True, 2)))
        records = [Record(0, Event(at, name, 1))]
        for _ in range(500):
            number += 1
            records.append(Record(0, Event(at - late * rules.quantum_ms, name, number, learning=learning)))
        batches.append(Batch(tuple(records), {"": 2.0} if not batches else None, plan=random.randrange(1, 99)))
    return History(rules, tuple(batches), salt=random.randrange(2**63), max_uncharged_bytes=2048)


def _lagging(seed: int) -> History:
    """One principal on two brokers, of which one is behind, or late: the same few PIDs, in small batches."""
    random, name, at = Chance(seed), "User:a", NOW_MS
    # With a debt below a token, each refused PID is refused again.
    rules = Rules(max_throttle_ms=random.choice((None, 60_000, 60_000)))
    batches = [Batch(tuple(Record(0, Event(at, name, pid)) for pid in range(6)), {"": random.choice((1.0, 3.0))})]
    for _ in range(random.randint(10, 25)):
        at += random.choice((0, 0, 0, 0, 0, 0, 0, 10_000))
        records = []
        for _ in range(random.randint(1, 3)):
            broker = random.randrange(2)
            behind_ms = broker * random.choice((10_000, 40_000, rules.quantum_ms))
            learning = random.random() < 0.1
            records.append(Record(0, Event(at - behind_ms, name, random.randrange(2, 6), broker, learning)))
        batches.append(Batch(tuple(records)))
    # By then, what a late event stored is forgotten unless it was renewed.
    batches.append(Batch(tuple(Record(0, Event(at + rules.window_ms, name, pid)) for pid in range(6))))
    return History(rules, tuple(batches), salt=random.randrange(2**63))


def _deep_in_debt(seed: int) -> History:
    """One principal far over its quota, which changes, in batches of many sizes: some refused PIDs come back."""
    random, name, at = Chance(seed), "User:a", NOW_MS + Chance(seed).randrange(HOUR_MS)
    window = random.choice((3600, 3600, 60, 7)) * 1000
    shortest = random.choice((60_000, window // 60, 0))
    longest = random.choice((None, None, window // 4, 3 * window))
    rules = Rules(
        window_ms=window,
        min_throttle_ms=shortest,
        max_throttle_ms=longest and max(longest, shortest),
        burst_windows=random.choice((Fraction(1), Fraction(1), Fraction(1, 2))),
    )
    tick = max(1, rules.quantum_ms // 90)
    steps = (0, 0, 0, 0, 0, 0, 1, tick // 3, tick, 3 * tick, 7 * tick)
    leaps = (rules.quantum_ms, window // 2, window, 2 * window)
    batches: list[Batch] = []
    number = 0
    for _ in range(random.randint(2, 12)):
        records = []
        at += random.choice(leaps) if random.random() < 0.15 else 0
        for _ in range(random.choice((1, 3, 20, 80))):
            at += random.choice(steps) if random.random() < 0.3 else 0
            is_new = random.random() < 0.8
            number += is_new
            pid = number if is_new else random.randrange(max(0, number - 40), number + 1)
            behind_ms = random.choice((1, tick, 3 * tick)) if random.random() < 0.05 else 0
            records.append(Record(0, Event(at - behind_ms, name, pid, learning=random.random() < 0.01)))
        quotas = _lowered_or_raised(random) if not batches or random.random() < 0.2 else None
        batches.append(Batch(tuple(records), quotas, plan=random.randrange(1, 99), trouble=random.choice(TROUBLES)))
    return History(rules, tuple(batches), salt=random.randrange(2**63))


def _lowered_or_raised(random: Random) -> dict[str, QuotaEntry]:
    rate = random.choice((0.5, 2.0, 5.0, 8.0, 20.0, 50.0))
    entry: QuotaEntry = random.choice((rate, rate, rate, (rate, random.choice((1.0, 10.0, 40.0)))))
    return {} if random.random() < 0.15 else {"": entry}


def _pid(random: Random, number: int, shape: int) -> int:
    """PIDs as brokers count them, or as somebody may make them up."""
    shapes = (number, number, 1000 + number, number << 44, int(f"{number:062b}"[::-1], 2), number * 2**20)
    return shapes[shape] if shape < len(shapes) else (number * 0x9E3779B97F4A7C15) & (2**63 - 1)


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random = Chance(seed)
        self.rules = rules = _rules(random)
        # Of a chance of their own: histories of before clients had names are otherwise the same.
        self.naming = naming = Chance(seed)
        self.client_ids, self.addresses = naming.choice(CLIENT_IDS), naming.choice(ADDRESSES)
        self.writing = writing = Chance(seed + 2**40)
        self.joined_odds = writing.choice((0.0, 0.5, 0.9))
        self.ahead_odds = writing.choice((0.0, 0.0, 0.1))
        self.lost_odds = writing.choice((0.0, 0.0, 0.0, 0.1))
        self.bursting = bursting = Chance(seed + 2**41)
        self.burst_odds = bursting.choice((0.0, 0.3, 0.8))
        self.rules = rules = _with_longest_throttle(rules, Chance(seed + 2**42))
        tick = max(1, rules.quantum_ms // 90)
        self.steps: tuple[int, ...]
        self.leaps: tuple[int, ...]
        self.steps = (0, 0, 0, 0, 1, 7, tick // 2, tick, tick, 3 * tick, 7 * tick, 7 * tick, rules.min_throttle_ms,
                      rules.interval_ms, rules.quantum_ms // 2)  # fmt: skip
        window = rules.window_ms
        self.leaps = (rules.quantum_ms, window, window + rules.quantum_ms, 2 * window, 11 * window, 13 * window,
                      random.randrange(1, 40 * window), 40 * HOUR_MS)  # fmt: skip
        self.names = random.sample(NAMES, random.randint(1, 4))
        self.home = {name: random.randrange(random.randint(1, 3)) for name in self.names}
        self.shape = {name: random.randrange(7) for name in self.names}
        self.pids = {name: random.randint(2, 12) for name in self.names}
        self.fresh = dict.fromkeys(self.names, 1000)
        begin = NOW_MS + random.randrange(window)
        self.at = {partition: begin + random.choice((0, 0, 0, window // 3)) for partition in range(3)}
        self.newest = dict(self.at)
        self.seen: dict[str, int] = {}
        """The newest event of each principal that its ledger has met."""
        self.leap_odds = random.choice((0.0, 0.02, 0.1))
        self.late_odds = random.choice((0.0, 0.0, 0.05, 0.2))
        self.mark_odds = random.choice((0.0, 0.0, 0.05, 0.3))
        self.back_odds = random.choice((0.1, 0.1, 0.4))
        self.bad_odds = random.choice((0.0, 0.0, 0.1))
        self.flood_odds = random.choice((0.1, 0.3, 0.7))
        if random.random() < 0.35:
            # Producers that come together, and again after about a window: they live on renewals.
            self.steps = (0, 0, 0, 0, 1, 7, tick // 2)
            self.leaps = (rules.quantum_ms, window - rules.quantum_ms // 2, window - rules.quantum_ms, window)
            self.leap_odds, self.flood_odds = random.choice((0.1, 0.2)), random.choice((0.0, 0.1))

    def make(self) -> History:
        random = self.random
        batches = []
        quotas: dict[str, QuotaEntry] | None = self._quotas()
        calm = random.random() < 0.3
        for _ in range(random.randint(2, 10)):
            before = max(self.newest.values())
            records = tuple(self._record() for _ in range(random.randint(1, random.choice((2, 8, 25)))))
            clock_ms = random.choice((0, 1000, max(self.newest.values()) - before, 50 * HOUR_MS))
            plan, trouble = (0, "") if calm else (random.randrange(1, 1000), random.choice(TROUBLES))
            batches.append(Batch(records, quotas, clock_ms, plan, trouble, self._loses(records), self._next_pid()))
            quotas = self._quotas() if random.random() < 0.12 else None
        if self.rules.learn_until_ms:
            self.rules = replace(self.rules, learn_below=self._next_pid())
        return History(
            self.rules,
            tuple(batches),
            random.choice((64, 64, 1, 2, 5)),
            1e-4 if random.random() < 0.1 else 1e-9,
            random.randrange(2**63),
        )

    def _quotas(self) -> dict[str, QuotaEntry]:
        random = self.random
        names = {name.split(":", 1)[-1] for name in self.names}
        rates = {name: random.choice(QUOTAS) for name in sorted(names) if random.random() < 0.6}
        rates |= {"": random.choice(QUOTAS)} if random.random() < 0.6 else {}
        return {name: self._with_burst(rate) for name, rate in rates.items()}

    def _with_burst(self, rate: float) -> QuotaEntry:
        bursting = self.bursting
        burst = bursting.choice((*BURSTS, rate))
        return (rate, burst) if bursting.random() < self.burst_odds else rate

    def _record(self) -> Record:
        random = self.random
        if random.random() < self.bad_odds:
            return Record(random.randrange(3), None, raw=random.choice(BAD))
        name = random.choice(self.names)
        partition = self.home[name]
        at = self._time(name, partition)
        pid, broker, learning = self._new_pid(name), random.choice((1, 1, 2)), random.random() < self.mark_odds
        client, address = (self.naming.choice(texts) for texts in (self.client_ids, self.addresses))
        event = Event(at, name, pid, broker, learning, client, address)
        ahead_ms = self._ahead_ms(random.choice((0, 5, 200_000, 9 * HOUR_MS)))
        joined = self.writing.random() < self.joined_odds
        if at == self.newest[partition] and pid >= 0 and ahead_ms >= -MAX_AHEAD_MS:
            self.seen[name] = at
        return Record(partition, event, ahead_ms, style=random.randrange(8), joined=joined)

    def _ahead_ms(self, ahead_ms: int) -> int:
        """How much later its record is stamped; sometimes its event is ahead of that, as much as may be or too much."""
        writing = self.writing
        ahead = -writing.choice((1, 60_000, MAX_AHEAD_MS, MAX_AHEAD_MS + 1))
        return ahead if writing.random() < self.ahead_odds else ahead_ms

    def _loses(self, records: tuple[Record, ...]) -> str:
        event = self.writing.choice(records).event
        if event is None or self.writing.random() >= self.lost_odds:
            return ""
        self.seen.pop(event.principal, None)
        return event.principal

    def _next_pid(self) -> int | None:
        """A bound of learning: unknown, or among the PIDs of somebody, of which some are older and some newer."""
        writing = self.writing
        name = writing.choice(self.names)
        number = writing.choice((0, 1, self.pids[name] // 2, 1000, self.fresh[name] - 2, self.fresh[name]))
        return writing.choice((None, _pid(writing, number, self.shape[name]), _pid(writing, number, self.shape[name])))

    def _new_pid(self, name: str) -> int:
        random = self.random
        if random.random() < 0.02:
            return -1
        if random.random() < self.flood_odds:
            self.fresh[name] += random.random() < 0.8
            return _pid(random, self.fresh[name], self.shape[name])
        return _pid(random, random.randrange(self.pids[name]), self.shape[name])

    def _time(self, name: str, partition: int) -> int:
        random, rules = self.random, self.rules
        step = random.choice(self.leaps) if random.random() < self.leap_odds else random.choice(self.steps)
        if random.random() < self.late_odds:
            return self._late(name, partition)
        if random.random() < self.back_odds:
            # A little out of order.
            at = max(self.newest[partition] - random.choice(self.steps), self.at[partition] - rules.window_ms)
            return max(at, self.newest[partition] - rules.window_ms)
        at = self.newest[partition] + step
        self.newest[partition] = at
        return at

    def _late(self, name: str, partition: int) -> int:
        """Up to a window behind its partition, and further only where its ledger can't have been removed."""
        random, rules, newest = self.random, self.rules, self.newest[partition]
        far = self.seen.get(name, 0) >= newest - rules.window_ms
        return newest - random.randrange(1, (3 if far else 1) * rules.window_ms)


def _rules(random: Random) -> Rules:
    window_s, layers = random.choice(
        ((3600, 4), (3600, 4), (3600, 4), (3600, 1), (3600, 3), (600, 4), (60, 4), (60, 5), (7, 4), (7, 2), (90, 4))
    )
    window = window_s * 1000
    rules = Rules(
        window_ms=window,
        layer_count=layers,
        window_num=random.choice((11, 11, 1, 2)),
        burst_windows=random.choice((Fraction(1), Fraction(1), Fraction(1), Fraction(1, 2), Fraction(11))),
        late_grace_ms=random.choice((300_000, window // 12, window // 12, 0)),
        min_throttle_ms=random.choice((60_000, window // 60, window // 60, 0)),
        interval_ms=random.choice((60_000, window // 60, window // 60, window // 6, 0)),
    )
    if random.random() < 0.15:
        return replace(rules, learn_until_ms=NOW_MS + random.randrange(3 * window))
    return rules


def _with_longest_throttle(rules: Rules, random: Random) -> Rules:
    window = rules.window_ms
    longest = random.choice((None, None, None, 0, window // 60, window // 4, 2 * window))
    return rules if longest is None else replace(rules, max_throttle_ms=max(longest, rules.min_throttle_ms))
