"""In-memory doubles for the enforcer: brokers, a log, decisions and a lock, all of which can fail.

The levers are the real ones; what they act on is a twin that keeps only what it is given.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from broker.enforcement.clock import BrokersTime
from broker.enforcement.levers.registry import levers
from broker.enforcement.model import (
    Clocks,
    EnforcementRecord,
    LeaseRecord,
    Pace,
    ReleaseOrder,
    Target,
    ThrottleDecision,
)
from broker.enforcement.notices import Notice
from broker.enforcement.planner import EnforcerOptions
from broker.enforcement.ports import EnforcerPorts
from broker.enforcement.reconcile import Enforcer
from broker.enforcement.store.past_decisions import PastDecisions
from broker.enforcement.store.tables import is_credible, newest_decisions
from broker.errors import BrokerError, BrokerUnreachableError
from broker.kafka.quota_entity import REQUEST_PERCENTAGE, QuotaChange, QuotaEntity
from tables.times import to_time
from wire.holds import HOLD_AUTHORIZER, MAX_HOLD_MS, HoldBinding

KEY = REQUEST_PERCENTAGE
START_MS = 1_800_000_000_000
MALLORY = QuotaEntity("mallory")
Result = TypeVar("Result")


class Crash(BaseException):
    """The process is killed here."""


class Faults:
    """Counts the calls to the outside; at the one with number `crash_at` the process dies, before or after it."""

    def __init__(self) -> None:
        self.calls, self.after = 0, False
        self.crash_at: int | None = None

    def __call__(self, call: Callable[[], Result]) -> Result:
        self.calls += 1
        now = self.crash_at == self.calls
        if now and not self.after:
            raise Crash
        result = call()
        if now:
            raise Crash
        return result


class MemoryBroker:
    def __init__(self, faults: Faults) -> None:
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.errors: dict[QuotaEntity, BrokerError] = {}
        self.altered: list[QuotaChange] = []
        self._faults = faults
        self.wider: float | None = None

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        return self._faults(lambda: dict(self.quotas.get(entity, {})))

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        return {entity: dict(values) for entity, values in self.quotas.items()}

    def inherited(self, entity: QuotaEntity, key: str, client_ids: Collection[str] = ()) -> float | None:
        """A user's own quota holds for its client ids, if they have none; `wider` is what defaults say."""
        others: Collection[str | None] = [None] if entity.client_id else client_ids
        found = [self.quotas.get(QuotaEntity(entity.user, each), {}).get(key, self.wider) for each in others]
        if not entity.client_id:
            found.append(self.wider)
        return min((each for each in found if each is not None), default=None)

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, BrokerError | None]:
        return self._faults(lambda: {change.entity: self._alter(change) for change in changes})

    def _alter(self, change: QuotaChange) -> BrokerError | None:
        error = self.errors.get(change.entity)
        if error is None:
            self.altered.append(change)
            self.set(change.entity, change.value, change.key)
        return error

    def set(self, entity: QuotaEntity, value: float | None, key: str = KEY) -> None:
        values = self.quotas.setdefault(entity, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        if not values:
            del self.quotas[entity]

    def writes(self, entity: QuotaEntity = MALLORY) -> list[float | None]:
        return [change.value for change in self.altered if change.entity == entity]


class MemoryHolds:
    def __init__(self, faults: Faults) -> None:
        self.bindings: set[HoldBinding] = set()
        self.added: list[HoldBinding] = []
        self.error: BrokerError | None = None
        self.authorizers: dict[int, str] | BrokerError = {1: ""}
        self._faults = faults

    def of_user(self, user: str) -> list[HoldBinding]:
        return self._faults(lambda: [each for each in self.bindings if each.user == user])

    def all(self) -> list[HoldBinding]:
        return list(self.bindings)

    def add(self, hold: HoldBinding) -> None:
        self._faults(lambda: self._add(hold))

    def _add(self, hold: HoldBinding) -> None:
        if self.error is not None:
            raise self.error
        self.bindings.add(hold)
        self.added.append(hold)

    def remove(self, holds: Collection[HoldBinding]) -> None:
        for hold in holds:
            self._faults(partial(self._remove, hold))

    def _remove(self, hold: HoldBinding) -> None:
        if self.error is not None:
            raise self.error
        self.bindings.discard(hold)

    def look(self) -> Mapping[int, str]:
        if isinstance(self.authorizers, BrokerError):
            raise self.authorizers
        return self.authorizers

    def ends(self, user: str = "mallory") -> list[int]:
        return sorted(each.until_ms for each in self.bindings if each.user == user)

    def held(self, now_ms: int) -> set[str]:
        """Whom the brokers' authorizer holds back now."""
        return {each.user for each in self.bindings if now_ms < each.until_ms <= now_ms + MAX_HOLD_MS}


class MemoryUse:
    def __init__(self) -> None:
        self.by_address: dict[str, set[str]] = {}
        self.why_not = ""
        self.own: set[str] = set()

    def unavailable_reason(self) -> str:
        return self.why_not

    def principals(self, address: str) -> Collection[str]:
        return self.by_address.get(address, ())


class Breakable:
    """Something outside that may die at a call, and that fails while it is broken."""

    def __init__(self, faults: Faults) -> None:
        self.broken: Exception | None = None
        self._faults = faults

    def check(self) -> None:
        if self.broken:
            raise self.broken

    def _call(self, call: Callable[[], Result]) -> Result:
        self.check()
        return self._faults(call)


class MemoryLog(Breakable):
    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.records: list[EnforcementRecord] = []
        self._seen = 0

    def append(self, records: Sequence[EnforcementRecord]) -> None:
        self._call(lambda: self.records.extend(records))
        # As the table is: own rows are no change.
        self._seen += len(records)

    def read(self) -> list[EnforcementRecord]:
        self.check()
        self._seen = len(self.records)
        return list(self.records)

    def has_changed(self) -> bool:
        self.check()
        return len(self.records) != self._seen

    def leases(self) -> list[LeaseRecord]:
        return [record for record in self.records if isinstance(record, LeaseRecord)]

    def states(self, entity: QuotaEntity = MALLORY) -> list[str]:
        return [record.lease.state for record in self.leases() if record.lease.target.entity == entity]


class MemoryStore(Breakable):
    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.kept: dict[str | None, LeaseRecord | ReleaseOrder] = {}
        self.latest_ms = self.seen_ms = 0
        """The latest time of a record, and what this process has read of it."""

    def read(self, *, again: bool = False) -> list[LeaseRecord | ReleaseOrder]:
        self.check()
        self.seen_ms = self.latest_ms
        return list(self.kept.values())

    def append(self, records: Sequence[LeaseRecord | ReleaseOrder]) -> None:
        names = [record.lease.lease_id if isinstance(record, LeaseRecord) else record.principal for record in records]
        self._call(lambda: self.kept.update(zip(names, records, strict=True)))

    def drop(self, lease_ids: Sequence[str]) -> None:
        self._call(lambda: [self.kept.pop(lease_id, None) for lease_id in lease_ids])


class MemoryDecisions:
    def __init__(self) -> None:
        self.bad_rows = 0
        self.rows: list[dict[str, Any]] = []
        self._seen = self._announced = 0
        self.broken: Exception | None = None
        self._past = PastDecisions()

    def restart(self) -> None:
        """A new process remembers nothing."""
        self._past = PastDecisions()

    def newest(self, now_ms: int, *, again: bool = False, only_new: bool = False) -> list[ThrottleDecision]:
        if self.broken:
            raise self.broken
        now, known = to_time(now_ms), self.rows[: None if only_new else self._seen]
        self._past.observe(
            now_ms, lambda: [row for row in known if row["throttled_until"] > now], was_set_back=only_new
        )
        if len(self.rows) == self._seen and not again:
            return []
        self._seen = len(self.rows)
        rows = self._past.without(self.rows)
        first = min((row["decided_at"] for row in rows if row["throttled_until"] > now), default=None)
        rows = [row for row in rows if first and row["decided_at"] >= first]
        self.bad_rows = sum(not is_credible(row, now_ms) for row in rows)
        return newest_decisions(rows, now_ms)

    def has_news(self) -> bool:
        before, self._announced = self._announced, len(self.rows)
        return self._announced not in (self._seen, before)


class MemoryLock:
    def __init__(self) -> None:
        self.times_taken = 0
        self._held = False
        self.held = True

    @property
    def held(self) -> bool:
        return self._held

    @held.setter
    def held(self, held: bool) -> None:
        self.times_taken += held and not self._held
        self._held = held

    def is_held(self) -> bool:
        return self.held

    def confirm(self) -> bool:
        return self.held

    def close(self) -> None:
        self.held = False


class World:
    """Brokers, tables and clocks; enforcers come and go."""

    def __init__(self, *, with_authorizer: bool = False, **options: Any) -> None:
        self.faults = Faults()
        self.broker, self.holds, self.use = MemoryBroker(self.faults), MemoryHolds(self.faults), MemoryUse()
        self.log, self.decisions, self.store = MemoryLog(self.faults), MemoryDecisions(), MemoryStore(self.faults)
        if with_authorizer:
            self.holds.authorizers = {1: HOLD_AUTHORIZER}
        self.now_ms, self.steady_ms = START_MS, 0
        """The brokers' time, and the monotonic clock of the enforcer's host."""
        self.ahead_ms = 0
        """How far the clock of the enforcer's host is ahead of the brokers'."""
        self.is_measured = True
        self.notices: list[Notice] = []
        self.options = EnforcerOptions(**options)
        self.restart()

    def restart(self) -> None:
        self.decisions.restart()
        self.store.seen_ms = 0
        self.lock = MemoryLock()
        self.enforcer = self.another(self.lock)
        # Kafka assigns the lock only after a while.
        self.lock.held = False
        self.enforcer.reconcile()
        self.lock.held = True

    def another(self, lock: MemoryLock) -> Enforcer:
        self.clocks = self._clocks()
        self.levers = levers(
            self.broker, self.holds, self.holds.look, self.use, lambda: self.use.own, self.clocks, self.notices.append
        )
        ports = EnforcerPorts(self.decisions, self.log, self.store, self.levers, lock)
        return Enforcer(ports, self.options, self.clocks, notify=self.notices.append, name="test")

    def _clocks(self) -> Clocks:
        time = BrokersTime(lambda: self.now_ms + self.ahead_ms, lambda: self.steady_ms)
        probes = Pace(lambda: self.steady_ms, 30_000)

        def now_ms() -> int:
            if self.is_measured:
                time.measured(self.steady_ms, self.now_ms, self.steady_ms)
                if probes.is_due():
                    # A probe is a record of the topic.
                    self.store.latest_ms = max(self.store.latest_ms, self.now_ms)
            return time.now_ms()

        return Clocks(now_ms, lambda: self.steady_ms)

    def decide(
        self, principal: str = "User:mallory", seconds: float = 60, name: str | None = None, **values: Any
    ) -> None:
        """Append a THROTTLE that was decided now, or a RELEASE after no seconds."""
        number = len(self.decisions.rows)
        row: dict[str, Any] = {
            "decision_id": name or f"{principal}/{number}",
            "principal": principal,
            "action": "THROTTLE" if seconds else "RELEASE",
            "reason": "over_quota",
            "decided_at": to_time(self.now_ms),
            "throttled_until": to_time(self.now_ms + round(seconds * 1000)),
            "quota": None,
            "refused_pids": 0,
            "client_ids": {},
            "addresses": {},
            "batch_id": number,
        }
        assert set(values) <= set(row)
        self.decisions.rows.append(row | values)

    def enforce(self, *args: Any, **values: Any) -> None:
        """Append a decision, as `decide` does, and reconcile."""
        self.decide(*args, **values)
        self.reconcile()

    def order(self, principal: str | None = None) -> None:
        """Give a release order, by the brokers."""
        self.store.append([ReleaseOrder(self.now_ms, principal, self.now_ms + 120_000)])

    def reconcile(self, after_seconds: float = 0.0) -> None:
        self.pass_seconds(after_seconds)
        self.enforcer.reconcile()

    def pass_seconds(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)
        self.steady_ms += round(seconds * 1000)

    def notices_of(self, action: str) -> list[Notice]:
        return [notice for notice in self.notices if notice.action == action]

    def targets(self) -> set[Target]:
        return set(self.enforcer.leases)


def unavailable() -> BrokerUnreachableError:
    return BrokerUnreachableError("the controller moves")
