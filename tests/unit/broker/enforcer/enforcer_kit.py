"""Twins of what an enforcer works with, in memory: a broker, a log, decisions and a lock, all of which can fail."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from broker.cluster.client_quotas import REQUEST_PERCENTAGE, QuotaChange
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.enforcer import Enforcer
from broker.enforcer.notices import Notice
from broker.enforcer.ports import Clocks, EnforcerPorts
from broker.enforcer_tables.action_rows import decisions_in_force
from broker.errors import ClientQuotaError, ClientQuotaUnavailableError
from broker.leases.lease_plan import EnforcerOptions
from broker.leases.lease_rules import Action
from broker.leases.lease_targets import ThrottleDecision
from tables.times import to_time

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
        self.errors: dict[QuotaEntity, ClientQuotaError] = {}
        self.altered: list[QuotaChange] = []
        self._faults = faults
        self.wider: float | None = None

    def describe(self, entity: QuotaEntity) -> dict[str, float]:
        return self._faults(lambda: dict(self.quotas.get(entity, {})))

    def describe_all(self) -> dict[QuotaEntity, dict[str, float]]:
        return {entity: dict(values) for entity, values in self.quotas.items()}

    def inherited(self, entity: QuotaEntity, key: str, _client_ids: Collection[str] = ()) -> float | None:
        """A user's own quota holds for its client ids; `wider` is what defaults say."""
        own = self.quotas.get(QuotaEntity(entity.user), {}).get(key) if entity.client_id else None
        return self.wider if own is None else own

    def alter(self, changes: Sequence[QuotaChange]) -> dict[QuotaEntity, ClientQuotaError | None]:
        return self._faults(lambda: {change.entity: self._alter(change) for change in changes})

    def _alter(self, change: QuotaChange) -> ClientQuotaError | None:
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


class MemoryLog:
    def __init__(self, faults: Faults) -> None:
        self.actions: list[Action] = []
        self.broken: Exception | None = None
        self._faults, self._seen = faults, 0

    def append(self, actions: Sequence[Action]) -> None:
        if self.broken:
            raise self.broken
        self._faults(lambda: self.actions.extend(actions))

    def read(self) -> list[Action]:
        if self.broken:
            raise self.broken
        self._seen = len(self.actions)
        return list(self.actions)

    def has_changed(self) -> bool:
        if self.broken:
            raise self.broken
        return len(self.actions) != self._seen

    def states(self, entity: QuotaEntity = MALLORY) -> list[str]:
        return [action.state for action in self.actions if action.lease and action.lease.entity == entity]


class MemoryStore:
    def __init__(self, faults: Faults) -> None:
        self.kept: dict[str | None, Action] = {}
        self.broken: Exception | None = None
        self._faults = faults

    def read(self, *, again: bool = False) -> list[Action]:
        if self.broken:
            raise self.broken
        return list(self.kept.values())

    def append(self, actions: Sequence[Action]) -> None:
        if self.broken:
            raise self.broken
        names = [action.lease.lease_id if action.lease else action.principal for action in actions]
        self._faults(lambda: self.kept.update(zip(names, actions, strict=True)))

    def drop(self, lease_ids: Sequence[str]) -> None:
        if self.broken:
            raise self.broken
        self._faults(lambda: [self.kept.pop(lease_id, None) for lease_id in lease_ids])


class MemoryDecisions:
    bad_rows = 0

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._seen = 0
        self.broken: Exception | None = None

    def in_force(self, now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        if self.broken:
            raise self.broken
        if len(self.rows) == self._seen and not again:
            return []
        self._seen = len(self.rows)
        now = to_time(now_ms)
        first = min((row["decided_at"] for row in self.rows if row["throttled_until"] > now), default=None)
        return decisions_in_force([row for row in self.rows if first and row["decided_at"] >= first], now_ms)

    def has_news(self) -> bool:
        return len(self.rows) != self._seen


class MemoryLock:
    def __init__(self) -> None:
        self.held = True

    def is_held(self) -> bool:
        return self.held

    def confirm(self) -> bool:
        return self.held

    def close(self) -> None:
        self.held = False


class Covered:
    """Whether holds can be used."""

    def __init__(self) -> None:
        self.why_not = ""

    def trouble(self) -> str:
        return self.why_not


class World:
    """A broker, tables and a clock; enforcers come and go."""

    def __init__(self, **options: Any) -> None:
        self.faults = Faults()
        self.broker, self.log, self.decisions = MemoryBroker(self.faults), MemoryLog(self.faults), MemoryDecisions()
        self.store = MemoryStore(self.faults)
        self.now_ms, self.steady_ms = START_MS, 0
        self.coverage = Covered()
        self.notices: list[Notice] = []
        self.options = EnforcerOptions(**options)
        self.restart()

    def restart(self) -> None:
        self.lock = MemoryLock()
        self.enforcer = self.another(self.lock)

    def another(self, lock: MemoryLock) -> Enforcer:
        ports = EnforcerPorts(self.decisions, self.log, self.store, self.broker, lock, self.coverage)
        clocks = Clocks(lambda: self.now_ms, lambda: self.steady_ms)
        return Enforcer(ports, self.options, clocks, notify=self.notices.append, name="test")

    def decide(
        self, principal: str = "User:mallory", seconds: float = 60, name: str | None = None, **values: Any
    ) -> None:
        """Append a THROTTLE that was decided now, or a RELEASE after no seconds."""
        number = len(self.decisions.rows)
        row: dict[str, Any] = {
            "decision_id": name or f"{principal}/{number}",
            "principal": principal,
            "broker_id": None,
            "action": "THROTTLE" if seconds else "RELEASE",
            "reason": "over_quota",
            "decided_at": to_time(self.now_ms),
            "throttled_until": to_time(self.now_ms + round(seconds * 1000)),
            "quota": None,
            "refused_pids": 0,
            "client_ids": {},
            "batch_id": number,
        }
        assert set(values) <= set(row)
        self.decisions.rows.append(row | values)

    def reconcile(self, after_seconds: float = 0.0) -> None:
        self.pass_seconds(after_seconds)
        self.enforcer.reconcile()

    def pass_seconds(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)
        self.steady_ms += round(seconds * 1000)

    def said(self, kind: str) -> list[Notice]:
        return [notice for notice in self.notices if notice.kind == kind]


def unavailable() -> ClientQuotaUnavailableError:
    return ClientQuotaUnavailableError("the controller moves")
