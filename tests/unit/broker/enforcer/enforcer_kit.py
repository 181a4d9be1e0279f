"""Twins of what an enforcer works with, in memory: a broker, a log, decisions and a lock, all of which can fail."""

from broker.cluster.client_quotas import REQUEST_PERCENTAGE
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.enforcer import Enforcer
from broker.enforcer.ports import Clocks, EnforcerPorts
from broker.enforcer_tables.action_rows import decisions_in_force
from broker.errors import ClientQuotaUnavailableError
from broker.leases.lease_plan import EnforcerOptions
from tables.times import to_time

KEY = REQUEST_PERCENTAGE
START_MS = 1_800_000_000_000
MALLORY = QuotaEntity("mallory")


class Crash(BaseException):
    """The process is killed here."""


class Faults:
    """Counts the calls to the outside; at the one with number `crash_at` the process dies, before or after it."""

    def __init__(self):
        self.calls, self.crash_at, self.after = 0, None, False

    def __call__(self, call):
        self.calls += 1
        now = self.crash_at == self.calls
        if now and not self.after:
            raise Crash
        result = call()
        if now:
            raise Crash
        return result


class MemoryBroker:
    def __init__(self, faults):
        self.quotas, self.errors, self.altered, self._faults = {}, {}, [], faults
        self.wider = None

    def describe(self, entity):
        return self._faults(lambda: dict(self.quotas.get(entity, {})))

    def describe_all(self):
        return {entity: dict(values) for entity, values in self.quotas.items()}

    def inherited(self, entity, key, _client_ids=()):
        """A user's own quota holds for its client ids; `wider` is what defaults say."""
        own = self.quotas.get(QuotaEntity(entity.user), {}).get(key) if entity.client_id else None
        return self.wider if own is None else own

    def alter(self, changes):
        return self._faults(lambda: {change.entity: self._alter(change) for change in changes})

    def _alter(self, change):
        error = self.errors.get(change.entity)
        if error is None:
            self.altered.append(change)
            self.set(change.entity, change.value, change.key)
        return error

    def set(self, entity, value, key=KEY):
        values = self.quotas.setdefault(entity, {})
        values[key] = value
        if value is None:
            del values[key]
        if not values:
            del self.quotas[entity]

    def writes(self, entity=MALLORY):
        return [change.value for change in self.altered if change.entity == entity]


class MemoryLog:
    def __init__(self, faults):
        self.actions, self.broken, self._faults, self._seen = [], None, faults, 0

    def append(self, actions):
        if self.broken:
            raise self.broken
        self._faults(lambda: self.actions.extend(actions))

    def read(self):
        if self.broken:
            raise self.broken
        self._seen = len(self.actions)
        return list(self.actions)

    def has_changed(self):
        if self.broken:
            raise self.broken
        return len(self.actions) != self._seen

    def states(self, entity=MALLORY):
        return [action.state for action in self.actions if action.lease and action.lease.entity == entity]


class MemoryStore:
    def __init__(self, faults):
        self.kept, self.broken, self._faults = {}, None, faults

    def read(self, *, again=False):
        if self.broken:
            raise self.broken
        return list(self.kept.values())

    def append(self, actions):
        if self.broken:
            raise self.broken
        names = [action.lease.lease_id if action.lease else action.principal for action in actions]
        self._faults(lambda: self.kept.update(zip(names, actions, strict=True)))

    def drop(self, lease_ids):
        if self.broken:
            raise self.broken
        self._faults(lambda: [self.kept.pop(lease_id, None) for lease_id in lease_ids])


class MemoryDecisions:
    bad_rows = 0

    def __init__(self):
        self.rows, self._seen, self.broken = [], 0, None

    def in_force(self, now_ms, *, again=False):
        if self.broken:
            raise self.broken
        if len(self.rows) == self._seen and not again:
            return []
        self._seen = len(self.rows)
        now = to_time(now_ms)
        first = min((row["decided_at"] for row in self.rows if row["throttled_until"] > now), default=None)
        return decisions_in_force([row for row in self.rows if first and row["decided_at"] >= first], now_ms)


class MemoryLock:
    def __init__(self):
        self.held = True

    def is_held(self):
        return self.held

    def confirm(self):
        return self.held

    def close(self):
        self.held = False


class World:
    """A broker, tables and a clock; enforcers come and go."""

    def __init__(self, **options):
        self.faults = Faults()
        self.broker, self.log, self.decisions = MemoryBroker(self.faults), MemoryLog(self.faults), MemoryDecisions()
        self.store = MemoryStore(self.faults)
        self.now_ms, self.steady_ms = START_MS, 0
        self.notices, self.options = [], EnforcerOptions(**options)
        self.enforcer, self.lock = None, None
        self.restart()

    def restart(self):
        self.lock = MemoryLock()
        self.enforcer = self.another(self.lock)

    def another(self, lock):
        ports = EnforcerPorts(self.decisions, self.log, self.store, self.broker, lock)
        clocks = Clocks(lambda: self.now_ms, lambda: self.steady_ms)
        return Enforcer(ports, self.options, clocks, say=self.notices.append, name="test")

    def decide(self, principal="User:mallory", seconds=60, name=None, **values):
        """Append a THROTTLE that was decided now, or a RELEASE after no seconds."""
        number = len(self.decisions.rows)
        row = {
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

    def reconcile(self, after_seconds=0.0):
        self.now_ms += round(after_seconds * 1000)
        self.steady_ms += round(after_seconds * 1000)
        self.enforcer.reconcile()

    def said(self, kind):
        return [notice for notice in self.notices if notice.kind == kind]


def unavailable():
    return ClientQuotaUnavailableError("the controller moves")
