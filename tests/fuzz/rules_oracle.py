"""The rules once more, slow and obvious: sets, lists, fractions. Written from the design, not from the code.

It remembers exactly where the product has Bloom filters, sketches and fixed-point integers. Nothing is optimised, and
nothing is shared with what it checks.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

TICKS_PER_QUANTUM = 90
NEVER = -1
MAX_NAME = 256
MAX_NAMES = 16


@dataclass(frozen=True)
class Rules:
    """The settings. Time is cut into ticks: each quantum has 90, also where they can't be of the same length."""

    window_ms: int = 3_600_000
    layer_count: int = 4
    window_num: int = 11
    burst_windows: Fraction = Fraction(1)
    late_grace_ms: int = 300_000
    min_throttle_ms: int = 60_000
    max_throttle_ms: int | None = None
    """None for the window, or for the shortest throttle if that is longer."""
    interval_ms: int = 60_000
    learn_until_ms: int = 0
    learn_below: int | None = None
    """The lowest PID that was not handed out yet when the learning began; None if unknown."""

    def step(self, at_ms: int) -> tuple[int, int]:
        """The begin and the end of a step, some whole ticks, by which the event time of a partition is kept."""
        most = max(1, self.ticks_of(self.late_grace_ms) // 5)
        ticks = max(each for each in range(1, TICKS_PER_QUANTUM + 1) if TICKS_PER_QUANTUM % each == 0 and each <= most)
        first = self.tick(at_ms) // ticks * ticks
        return self.start(first), self.start(first + ticks)

    def ticks_of(self, duration_ms: int) -> int:
        return duration_ms * TICKS_PER_QUANTUM // self.quantum_ms

    @property
    def quantum_ms(self) -> int:
        return self.window_ms // self.layer_count

    def tick(self, at_ms: int) -> int:
        return at_ms * TICKS_PER_QUANTUM // self.quantum_ms

    def start(self, tick: int) -> int:
        return -(-tick * self.quantum_ms // TICKS_PER_QUANTUM)

    def ticks_in(self, duration_ms: int | Fraction) -> int:
        return max(1, round(Fraction(duration_ms * TICKS_PER_QUANTUM, self.quantum_ms)))

    def debt(self, rate: Fraction) -> Fraction:
        """How many tokens refused PIDs may take from an exhausted bucket."""
        longest = max(self.window_ms, self.min_throttle_ms) if self.max_throttle_ms is None else self.max_throttle_ms
        return rate * longest / self.window_ms

    @property
    def interval_ticks(self) -> int:
        return self.ticks_in(self.interval_ms)


@dataclass(frozen=True)
class Event:
    at_ms: int
    principal: str
    pid: int
    broker: int = 0
    learning: bool = False
    client: str = ""
    """The client id; empty if unknown, as the address."""
    address: str = ""


@dataclass(frozen=True)
class Quota:
    """New PIDs per window, and at once: `burst` is None for the burst of the rules."""

    rate: Fraction
    burst: Fraction | None = None


@dataclass(frozen=True)
class Decision:
    action: str
    reason: str
    decided_at: int
    throttled_until: int
    throttle_time_ms: int
    tokens: Fraction | None
    rate: Fraction
    quota: Fraction | None
    burst: Fraction | None
    refused: int = 0
    client_ids: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """The last metrics row of an interval."""

    as_of: int
    admitted: int
    refused: int
    owed: int
    tokens: Fraction | None
    rate: Fraction
    quota: Fraction | None
    burst: Fraction | None
    active: int
    new_in_window: Fraction
    phase: str


@dataclass
class Sample:
    start_ms: int
    last_ms: int
    count: int = 0


@dataclass
class Episode:
    tick: int
    until: int
    decided_ms: int
    refused: dict[int, tuple[str, str]] = field(default_factory=dict)
    """PIDs, each with the client id and the address that it was first refused from."""


class Said:
    """What one ledger says: decisions, the last row of each interval, late events."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.rows: dict[int, Row] = {}
        self.late: list[tuple[int, int, bool]] = []
        self._open: Episode | None = None

    def decide(self, decision: Decision, episode: Episode) -> None:
        self.settle()
        self.decisions.append(evident(decision, episode))
        self._open = episode if decision.action == "THROTTLE" else None

    def settle(self) -> None:
        """The refused PIDs of a THROTTLE are those until the next decision, or until its batch ends."""
        if self._open is not None:
            self.decisions[-1] = evident(self.decisions[-1], self._open)
            self._open = None


def evident(decision: Decision, episode: Episode) -> Decision:
    """Return a decision with what its episode has refused so far."""
    clients = list(episode.refused.values())
    client_ids = counted([client for client, _ in clients])
    addresses = counted([address for _, address in clients if address])
    return replace(decision, refused=len(clients), client_ids=client_ids, addresses=addresses)


def counted(names: list[str]) -> dict[str, int]:
    """Return how often each name comes; of too many the first fifteen have a count of their own."""
    names = [name if len(name) <= MAX_NAME else "other" for name in names]
    own = list(dict.fromkeys(names))[: MAX_NAMES - 1]
    return dict(Counter(name if name in own else "other" for name in names))


class Ledger:
    def __init__(self, rules: Rules, said: Said) -> None:
        self.rules, self.said = rules, said
        self.quota: Quota | None = None
        self.interval = NEVER
        self.fresh()

    def learn(self, until_ms: int, below: int | None) -> None:
        self.learn_until, self.learn_below = until_ms, below

    def fresh(self) -> None:
        self.clock = NEVER  # a tick
        self.learn_until, self.learn_below = 0, None
        self.stored: dict[int, set[int]] = {}  # PIDs by quantum
        self.admitted_in: dict[int, int] = {}  # by quantum
        self.refused_in: dict[int, set[int]] = {}
        self.throttled_in: dict[int, set[int]] = {}  # ticks that refused a PID: of each the throttle time counts
        self.tokens: Fraction | None = None  # None: nobody has asked for one, so the bucket is full
        self.filled = 0  # the tick up to which tokens have come back
        self.samples: list[Sample] = []
        self.episode: Episode | None = None
        self.ended = 0
        self.admitted = 0
        self.owed = 0
        self.refused: set[int] = set()

    # --- what one event does

    def event(self, event: Event, quota: Quota | None) -> None:
        """Judge an event; the quota is that of its batch, and begins to count once time has passed."""
        rules = self.rules
        has_news = self.reach(event.at_ms, quota)
        tick = rules.tick(event.at_ms)
        now, before = max(self.clock, tick), self.told()
        if tick < rules.tick(max(0, rules.start(self.clock) - rules.late_grace_ms)):
            self.late(event, tick)
        else:
            self.judge(event, now)
        if has_news or self.told() != before:
            self.write_row(max(self.clock, self.interval * rules.interval_ticks))

    def reach(self, at_ms: int, quota: Quota | None) -> bool:
        """Let a time come, and a quota, which alone makes no row; returns whether there is something to say of it."""
        tick = self.rules.tick(at_ms)
        if self.clock != NEVER and tick >= self.expires():
            self.say_last()
            self.fresh()
        now, before = max(self.clock, tick), self.told()
        if self.clock == NEVER:
            self.move(now)
        self.pass_time(now)
        has_news = self.told() != before
        return (quota != self.quota and self.set_quota(quota, now, self.moment(at_ms, now))) or has_news

    def hear_of(self, at_ms: int, quota: Quota | None) -> None:
        """A new quota comes without an event, which may end a throttle."""
        holds = self.episode is not None and at_ms < self.episode.until
        if holds and quota != self.quota and self.reach(at_ms, quota):
            self.write_row(max(self.clock, self.interval * self.rules.interval_ticks))

    def told(self) -> object:
        stored = sum(len(pids) for pids in self.stored.values())
        refused = [len(self.refused)]
        refused += [sum(len(each) for each in counts.values()) for counts in (self.refused_in, self.throttled_in)]
        ends = self.episode and (self.episode.until, len(self.episode.refused))
        return self.clock, self.interval, stored, self.tokens, self.filled, refused, ends, len(self.said.late)

    def pass_time(self, now: int) -> None:
        """Let time come to a tick: a throttle ends, an interval ends, a quantum ends."""
        rules = self.rules
        if now // rules.interval_ticks > self.interval:
            self.interval = now // rules.interval_ticks
            self.admitted, self.owed, self.refused = 0, 0, set()
        if self.quantum(now) > self.quantum(self.clock):
            self.move(now)
        if self.episode is not None and rules.start(now) > self.episode.until:
            until = self.episode.until
            self.decide("RELEASE", "throttle_ended", until, until, 0)
            self.episode, self.ended = None, until

    def judge(self, event: Event, now: int) -> None:
        quantum, pid = self.quantum(now), event.pid
        if pid in self.stored.get(quantum, ()):
            return  # there is a copy in this quantum: nothing changes
        self_known = self.remembers(pid, quantum)
        is_free = event.learning or self.is_old(pid, now)
        self.move(now)
        if self_known or is_free:
            self.store(pid, quantum)
        elif self.quota is None or self.take_token(now):
            self.store(pid, quantum)
            self.record_rate(self.moment(event.at_ms, now))
            self.admitted += 1
            self.admitted_in[quantum] = self.admitted_in.get(quantum, 0) + 1
        else:
            if self.owe_token():
                self.store(pid, quantum)
                self.owed += 1
            self.refuse(event, self.moment(event.at_ms, now), now)

    def late(self, event: Event, tick: int) -> None:
        self.said.late.append((event.pid, tick, event.learning))
        quantum = self.quantum(tick)
        if quantum >= self.quantum(self.clock) - self.rules.layer_count:
            self.store(event.pid, quantum)

    def refuse(self, event: Event, now_ms: int, now: int) -> None:
        rules, pid = self.rules, event.pid
        recovers = self.recovers(now)
        self.refused.add(pid)
        self.refused_in.setdefault(self.quantum(now), set()).add(pid)
        self.throttled_in.setdefault(self.quantum(now), set()).add(now)
        if self.episode is None and now < rules.tick(self.ended):
            return  # the throttle of that time is over
        if self.episode is None:
            # Of a PID's events in a tick, the first may stand for all, so it may be older than the release.
            now_ms = max(now_ms, self.ended + 1)
            is_due = True
        else:
            is_due = self.renewal_is_due(self.episode, now, recovers)
            # The newest row holds: none is dated as the one before.
            now_ms = max(now_ms, self.episode.decided_ms + 1)
        until = max(recovers, now_ms + rules.min_throttle_ms)
        if self.episode is None:
            self.episode = Episode(now, until, now_ms)
        self.episode.refused.setdefault(pid, (event.client, event.address))
        if is_due:
            self.episode.tick, self.episode.until, self.episode.decided_ms = now, until, now_ms
            self.decide("THROTTLE", "over_quota", now_ms, until, max(0, recovers - now_ms))

    def renewal_is_due(self, episode: Episode, now: int, recovers: int) -> bool:
        """The shortest throttle has passed, or the throttle would last twice as long: both as of whole ticks."""
        rules = self.rules
        lasts = max(recovers - rules.start(now), rules.min_throttle_ms)
        before = max(1, episode.until - rules.start(episode.tick))
        return now - episode.tick >= rules.ticks_in(rules.min_throttle_ms) or lasts >= 2 * before

    # --- what is remembered

    def quantum(self, tick: int) -> int:
        return tick // TICKS_PER_QUANTUM

    def moment(self, at_ms: int, now: int) -> int:
        return max(at_ms, self.rules.start(now))

    def move(self, now: int) -> None:
        self.clock = max(self.clock, now)
        oldest = self.quantum(self.clock) - self.rules.layer_count
        for each in (self.stored, self.admitted_in, self.refused_in, self.throttled_in):
            for quantum in [quantum for quantum in each if quantum < oldest]:
                del each[quantum]

    def store(self, pid: int, quantum: int) -> None:
        self.stored.setdefault(quantum, set()).add(pid)

    def remembers(self, pid: int, quantum: int) -> bool:
        oldest = quantum - self.rules.layer_count
        return any(pid in pids for number, pids in self.stored.items() if number >= oldest)

    def bounds(self, now: int) -> list[int | None]:
        """The bounds of the learning times that have not ended: of the stream, and of the ledger since it was lost."""
        times = ((self.rules.learn_until_ms, self.rules.learn_below), (self.learn_until, self.learn_below))
        return [below for until, below in times if self.rules.start(now) < until]

    def is_old(self, pid: int, now: int) -> bool:
        return any(below is None or pid < below for below in self.bounds(now))

    # --- tokens, quota, rate

    def burst_of(self, quota: Quota) -> Fraction:
        return quota.rate * self.rules.burst_windows if quota.burst is None else quota.burst

    def burst(self) -> Fraction:
        assert self.quota is not None
        return self.burst_of(self.quota)

    def in_force(self) -> tuple[Fraction | None, Fraction | None]:
        return (None, None) if self.quota is None else (self.quota.rate, self.burst())

    def tokens_at(self, tick: int) -> Fraction:
        assert self.quota is not None
        if self.tokens is None:
            return self.burst()
        elapsed_ms = max(0, self.rules.start(tick) - self.rules.start(self.filled))
        return min(self.burst(), self.content(self.tokens) + self.quota.rate * elapsed_ms / self.rules.window_ms)

    def content(self, tokens: Fraction) -> Fraction:
        """A quota that was lowered allows a smaller debt; the last admitted PID may owe a part of a token anyhow."""
        assert self.quota is not None
        return max(tokens, -max(Fraction(1), self.rules.debt(self.quota.rate)))

    def take_token(self, now: int) -> bool:
        self.tokens, self.filled = self.tokens_at(now), max(now, self.filled)
        if self.tokens < 0:
            return False
        self.tokens -= 1
        return True

    def owe_token(self) -> bool:
        """Of the exhausted bucket, which `take_token` has just filled up to now."""
        assert self.quota is not None
        assert self.tokens is not None
        if self.tokens - 1 < -self.rules.debt(self.quota.rate):
            return False
        self.tokens -= 1
        return True

    def recovers(self, now: int) -> int:
        """The millisecond in which the bucket is not exhausted any more: tokens are those of a tick's start."""
        if self.quota is None or self.tokens_at(now) >= 0:
            return self.rules.start(now)
        return self.rules.start(now) + round_half_up(-self.tokens_at(now) / self.quota.rate * self.rules.window_ms)

    def set_quota(self, quota: Quota | None, now: int, at_ms: int) -> bool:
        """Returns whether there is something to say of it: a throttle that ends sooner."""
        before = self.quota
        is_raised = before is not None and (quota is None or quota.rate > before.rate)
        if before is not None and self.tokens is not None:
            self.tokens, self.filled = self.tokens_at(now), max(now, self.filled)
            if quota is not None and quota.burst is not None and quota.burst > self.burst_of(before):
                # A larger burst of its own is there at once.
                self.tokens += quota.burst - self.burst_of(before)
                is_raised = True
        self.quota = quota
        if not is_raised or self.episode is None:
            return False
        # The newest row holds: none is dated as the one that it changes.
        at_ms = max(at_ms, self.episode.decided_ms + 1)
        until = max(at_ms, self.recovers(now))
        if until >= self.episode.until:
            return False
        self.episode.tick, self.episode.until, self.episode.decided_ms = now, until, at_ms
        if self.quota is not None and self.tokens_at(now) < 0:
            self.decide("THROTTLE", "quota_changed", at_ms, until, until - at_ms)
        else:
            self.decide("RELEASE", "quota_changed", at_ms, at_ms, 0)
            self.episode, self.ended = None, at_ms
        return True

    def record_rate(self, now_ms: int) -> None:
        rules = self.rules
        if not self.samples or now_ms - self.samples[-1].start_ms >= rules.window_ms:
            self.samples = [*self.samples, Sample(now_ms, now_ms)][-(rules.window_num + 1) :]
        self.samples[-1].count += 1
        self.samples[-1].last_ms = now_ms

    def rate(self, now_ms: int) -> Fraction:
        """Kafka's `Rate` over `SampledStat`, asked without leaving a trace; in PIDs per window."""
        rules = self.rules
        live = [each for each in self.samples if now_ms - each.last_ms < rules.window_num * rules.window_ms]
        if not live:
            return Fraction(0)
        elapsed = now_ms - min(each.start_ms for each in live)
        full_windows = int(Fraction(elapsed, rules.window_ms))  # towards zero, as Java
        elapsed += max(0, rules.window_num - 1 - full_windows) * rules.window_ms
        return Fraction(sum(each.count for each in live) * rules.window_ms, max(elapsed, 1))

    # --- what is said

    def decide(self, action: str, reason: str, at_ms: int, until: int, wait: int) -> None:
        assert self.episode is not None
        tokens = None if self.quota is None else self.tokens_at(self.rules.tick(at_ms))
        episode, rate = self.episode, self.rate(at_ms)
        self.said.decide(Decision(action, reason, at_ms, until, wait, tokens, rate, *self.in_force()), episode)

    def write_row(self, tick: int) -> None:
        rules = self.rules
        at_ms = rules.start(tick)
        self.said.rows[rules.start((self.interval + 1) * rules.interval_ticks)] = Row(
            at_ms,
            self.admitted,
            len(self.refused),
            self.owed,
            None if self.quota is None else self.tokens_at(tick),
            self.rate(at_ms),
            *self.in_force(),
            len(set().union(*self.stored.values())),
            self.new_in_window(at_ms),
            "learning" if any(below != 0 for below in self.bounds(tick)) else "enforcing",
        )

    def new_in_window(self, at_ms: int) -> Fraction:
        """Admitted and distinct refused PIDs; the quantum in which the window begins counts for its part of it."""
        begin, length = at_ms - self.rules.window_ms, self.rules.quantum_ms
        quanta = {*self.admitted_in, *self.refused_in}
        inside = {each for each in quanta if each * length >= begin}
        cut = {each for each in quanta if each * length < begin < (each + 1) * length}
        whole, more = self.new_in(inside), self.new_in(inside | cut)
        share = Fraction(sum((each + 1) * length - begin for each in cut), length)
        return whole + share * (more - whole)

    def new_in(self, quanta: set[int]) -> int:
        refused = set().union(*(self.refused_in.get(each, set()) for each in quanta))
        return sum(self.admitted_in.get(each, 0) for each in quanta) + len(refused)

    # --- the end

    def expires(self) -> int:
        """The tick from which on nothing of this ledger bears on what comes."""
        rules = self.rules
        idle_ms = rules.window_num * rules.window_ms
        ends = [(self.quantum(self.clock) + rules.layer_count + 1) * rules.quantum_ms, self.learn_until]
        if self.samples:
            ends.append(self.samples[-1].last_ms + idle_ms)
        if self.episode is not None:
            ends.append(self.episode.until)
        if self.tokens is not None and self.quota is None:
            ends.append(rules.start(self.filled) + idle_ms)  # whatever quota comes next
        elif self.tokens is not None and self.quota is not None:
            lacking = max(Fraction(0), self.burst() - self.content(self.tokens))
            wait = lacking * rules.window_ms / self.quota.rate
            ends.append(rules.start(self.filled) - (-wait.numerator // wait.denominator))
        return rules.tick(max(ends)) + 1

    def say_last(self) -> None:
        """A pending RELEASE, and a row of rate 0, dated when the ledger expired."""
        tick = self.expires()
        self.pass_time(tick)
        self.tokens, self.samples, self.learn_until, self.ended = None, [], 0, 0
        self.write_row(tick)


@dataclass(frozen=True)
class Lost:
    """A principal whose ledger is lost, and the lowest PID that was not handed out yet by then; None if unknown."""

    principal: str
    next_pid: int | None


class Oracle:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.ledgers: dict[str, Ledger] = {}
        self.everything: dict[str, Said] = {}
        self.began_ms = 0
        self.newest_ms: dict[int, int] = {}
        self.home: dict[str, int] = {}

    def batch(
        self,
        events: list[Event],
        quotas: dict[str, Quota | None],
        lost: Lost | None,
        began_ms: int,
        newest: dict[str, dict[int, int]],
    ) -> None:
        """Take a batch.

        Args:
            events: In the order in which they count.
            quotas: By principal.
            lost: Of whom all that was known is lost.
            began_ms: The driver's clock when the batch begins.
            newest: The newest event of each principal in each partition.
        """
        self.began_ms = max(self.began_ms, began_ms)
        self.take([event for event in events if event.pid >= 0], quotas, lost)
        # A changed quota reaches silent principals by the batch's begin, at most a step after the newest event of their
        # partition in earlier batches.
        for principal in self.ledgers.keys() - newest.keys():
            now_ms = min(self.began_ms, self.rules.step(self.newest_ms.get(self.home[principal], 0))[1])
            self.ledgers[principal].hear_of(now_ms, quotas[principal])
            self.ledgers[principal].said.settle()
        for principal, times in newest.items():
            self.home[principal] = max(times, key=lambda partition: (times[partition], partition))
            for partition, at_ms in times.items():
                self.newest_ms[partition] = max(self.rules.step(at_ms)[0], self.newest_ms.get(partition, 0))

    def take(self, events: list[Event], quotas: dict[str, Quota | None], lost: Lost | None) -> None:
        if lost:
            first = next(event for event in events if event.principal == lost.principal)
            del self.ledgers[lost.principal]
            self.ledger(lost.principal).learn(first.at_ms + self.rules.window_ms, lost.next_pid)
        for event in events:
            self.ledger(event.principal).event(event, quotas[event.principal])
        for principal in {event.principal for event in events}:
            self.ledgers[principal].said.settle()

    def ledger(self, principal: str) -> Ledger:
        if principal not in self.ledgers:
            self.ledgers[principal] = Ledger(self.rules, self.everything.setdefault(principal, Said()))
        return self.ledgers[principal]

    def said(self) -> dict[str, tuple[Said, Said]]:
        """What each ledger has said, and what it would say if it were removed now."""
        found = {}
        for principal, ledger in self.ledgers.items():
            said, last = ledger.said, Said()
            ledger.said = last
            ledger.say_last()
            found[principal] = (said, last)
        return found


def round_half_up(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)
