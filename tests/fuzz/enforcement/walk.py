"""A random walk of an enforcer among decisions, admins, reconcilers, faults, kills and clocks, beside an oracle.

The oracle knows what the walk did: which decisions it wrote, and what admins set. It knows nothing of leases, and looks
at the brokers alone after each reconciliation.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from broker.enforcement.model import CANARY, MAX_AHEAD_MS, MAX_LEASE_MS, ReleaseOrder
from broker.errors import BrokerUnreachableError, LeaseStoreError
from broker.kafka.quota_entity import CONNECTION_CREATION_RATE, REQUEST_PERCENTAGE, QuotaEntity
from tables.errors import TableError
from tests.fuzz.history import Chance
from tests.kits.enforcer_kit import Crash, World
from wire.holds import HOLD_AUTHORIZER, MAX_HOLD_MS, HoldBinding

USERS = ("mallory", "eve", "trent")
INNOCENT = "alice"
NEVER = "etl"
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
OURS = {REQUEST_PERCENTAGE: 0.01, CONNECTION_CREATION_RATE: 1.0}
CALM_MS = 20_000
"""After a fault: the longest pause before a retry, and a look at what others changed."""


class WrongError(AssertionError):
    """The enforcer did what it must not."""


@dataclass(frozen=True)
class Told:
    """A decision as it was written, at `written_ms` by the monotonic clock."""

    user: str
    decided_at_ms: int
    until_ms: int
    is_ahead: bool
    written_ms: int


class Walk:
    """One walk; `run` raises `WrongError` if anything is wrong."""

    def __init__(self, seed: int, steps: int = 60) -> None:
        self._random, self._steps = Chance(seed), steps
        self.world = World(
            with_authorizer=self._random.random() < 0.6,
            never=frozenset({NEVER}),
            hands_off_ms=self._random.choice([5_000, 60_000, 3_600_000]),
        )
        self._told: list[Told] = []
        self._admin: dict[QuotaEntity, dict[str, float]] = {}
        self._by_hand: set[HoldBinding] = set()
        self._sweeps: list[Callable[[], None]] = []
        self._trouble_ms = self.world.steady_ms
        self._seen = 0
        self._orders: list[ReleaseOrder] = []
        self._has_stepped = False
        self.done: list[str] = []

    def run(self) -> None:
        """Walk, then let all faults end and all decisions pass."""
        for _ in range(self._steps):
            step = self._random.choice(_STEPS)
            self.done.append(step.__name__)
            step(self)
            self._let_reconcile()
        self._end()

    # What happens

    def decide(self) -> None:
        user = self._random.choice((*USERS, *USERS, NEVER))
        self._tell(user, self._random.choice([0.5, 5, 40, 180, 600, 5000]), "over_quota")

    def renew(self) -> None:
        if self._told:
            self._tell(self._told[-1].user, self._random.choice([20, 60, 181]), "over_quota")

    def change_quota(self) -> None:
        if self._told:
            last = self._random.choice(self._told)
            self._tell(last.user, self._random.choice([0, 0.3, 7, 30]), "quota_changed")

    def lie(self) -> None:
        ahead_s = self._random.choice([-4000, -60, 40, 400, 30_000_000_000])
        now_ms = self.world.now_ms
        self.world.now_ms += ahead_s * 1000
        self._tell(
            self._random.choice(USERS), self._random.choice([1, 60, 30_000_000_000]), "over_quota", is_ahead=ahead_s > 0
        )
        self.world.now_ms = now_ms

    def _tell(self, user: str, seconds: float, reason: str, *, is_ahead: bool = False) -> None:
        before = sum(told.user == user for told in self._told)
        self.world.decide(
            f"User:{user}",
            seconds,
            reason=reason,
            refused_pids=self._random.choice([3, 10 * before]),
            client_ids=self._random.choice([{}, {"app": 10}, {f"app-{self._random.randrange(9)}": 5, "rdkafka": 1}]),
            addresses={address: 3 for address in ADDRESSES if self._random.random() < 0.4},
        )
        at_ms = self.world.now_ms
        self._told.append(Told(user, at_ms, at_ms + round(seconds * 1000), is_ahead, self.world.steady_ms))

    def let_time_pass(self) -> None:
        self.world.pass_seconds(self._random.choice([0.2, 1, 4, 11, 29, 61, 700]))

    def set_host_clock(self) -> None:
        self.world.ahead_ms += self._random.choice([-86_400_000, -90_000, -3000, 3000, 90_000, 86_400_000])

    def admin_sets_quota(self) -> None:
        user = self._random.choice((*USERS, INNOCENT))
        entity = self._random.choice([QuotaEntity(user), QuotaEntity(user, "app"), QuotaEntity(ip=ADDRESSES[0])])
        key = CONNECTION_CREATION_RATE if entity.ip else REQUEST_PERCENTAGE
        value = self._random.choice([50.0, 7.0, 2.0, None])
        self.world.broker.set(entity, value, key)
        self._admin.pop(entity, None)
        if value is not None:
            self._admin[entity] = {key: value}
        self._trouble_ms = self.world.steady_ms

    def admin_restores_quota(self) -> None:
        """Remove ours by hand."""
        for entity, values in list(self.world.broker.quotas.items()):
            if any(values.get(key) == value for key, value in OURS.items()):
                for key in OURS:
                    self.world.broker.set(entity, None, key)
                self._admin.pop(entity, None)
        self._trouble_ms = self.world.steady_ms

    def admin_changes_holds(self) -> None:
        choice, now_ms = self._random.random(), self.world.now_ms
        if choice < 0.4:
            user = self._random.choice((*USERS, INNOCENT))
            hold = HoldBinding(user, now_ms + self._random.choice([-1000, 30_000, 600_000]))
            self._by_hand.add(hold)
            self.world.holds.bindings.add(hold)
        elif choice < 0.7:
            self.world.holds.bindings -= self._by_hand
            self._by_hand.clear()
        else:
            self.world.holds.bindings = set(self._by_hand)
        self._trouble_ms = self.world.steady_ms

    def reconciler_comes(self) -> None:
        if self._random.random() < 0.5:
            self._sweeps.append(self._sweep_holds)
        else:
            self._sweeps.append(self._sweep_quotas)

    def reconciler_goes(self) -> None:
        self._sweeps.clear()

    def _sweep_holds(self) -> None:
        self.world.holds.bindings = set(self._by_hand)

    def _sweep_quotas(self) -> None:
        quotas = self.world.broker.quotas
        for entity in [each for each in quotas if each.user is not None and each not in self._admin]:
            del quotas[entity]
        for entity, values in self._admin.items():
            quotas[entity] = dict(values)

    def kill(self) -> None:
        """At one of the next calls to the outside."""
        faults = self.world.faults
        faults.crash_at, faults.after = faults.calls + self._random.randrange(1, 12), self._random.random() < 0.5

    def restart(self) -> None:
        if self._random.random() < 0.5:
            self._guarded(lambda: self.world.enforcer.end_all("stopped"))
        if self._random.random() < 0.3:
            self.world.options = type(self.world.options)(
                lever=self._random.choice(["auto", "hold", "connection_creation_rate", "request_percentage"]),
                never=self.world.options.never,
                hands_off_ms=self.world.options.hands_off_ms,
            )
        self.world.restart()
        self._trouble_ms = self.world.steady_ms

    def take_lock(self) -> None:
        """By another enforcer, and back: the first one keeps its memory."""
        first, lock = self.world.enforcer, self.world.lock
        self._trouble_ms = self.world.steady_ms
        lock.held = False
        self.world.restart()
        self._let_reconcile()
        if self._random.random() < 0.5:
            self.world.lock.held, lock.held = False, True
            self.world.enforcer, self.world.lock = first, lock
        self._trouble_ms = self.world.steady_ms

    def break_tables(self) -> None:
        broken = TableError("torn commit")
        if self._random.random() < 0.6:
            self.world.log.broken = broken
        if self._random.random() < 0.6:
            self.world.decisions.broken = broken

    def break_topic(self) -> None:
        self.world.store.broken = LeaseStoreError("topic deleted")

    def break_brokers(self) -> None:
        error = BrokerUnreachableError("the controller moves")
        self.world.holds.error = error
        for user in USERS:
            for entity in (QuotaEntity(user), QuotaEntity(user, "app")):
                self.world.broker.errors[entity] = error
        for address in ADDRESSES:
            self.world.broker.errors[QuotaEntity(ip=address)] = error

    def mend(self) -> None:
        self.world.log.broken = self.world.decisions.broken = self.world.store.broken = None
        self.world.broker.errors.clear()
        self.world.holds.error = None
        self._trouble_ms = self.world.steady_ms

    def change_authorizer(self) -> None:
        self.world.holds.authorizers = self._random.choice([{1: HOLD_AUTHORIZER}, {1: HOLD_AUTHORIZER, 2: ""}])

    def move_clients(self) -> None:
        self.world.use.by_address = {
            address: {f"User:{user}" for user in (*USERS, INNOCENT) if self._random.random() < 0.3}
            for address in ADDRESSES
        }
        self.world.use.why_not = self._random.choice(["", "", "the events can't be read"])

    def release(self) -> None:
        principal = self._random.choice([None, f"User:{self._random.choice(USERS)}"])
        order = ReleaseOrder(self.world.now_ms, principal, self.world.now_ms + self._random.choice([60_000, 300_000]))
        if self.world.store.broken is None:
            self._guarded(lambda: self.world.store.append([order]))
            if order in self.world.store.kept.values():
                # A killed process may not have written it, so the order before it holds.
                self._orders = [*(each for each in self._orders if each.principal != principal), order]

    def set_brokers_clock(self) -> None:
        self.world.now_ms += self._random.choice([-86_400_000, -90_000, -40_000, 40_000, 4_000_000])
        self._orders.clear()
        self._has_stepped = True
        self._trouble_ms = self.world.steady_ms

    # What is checked

    def _let_reconcile(self) -> None:
        for sweep in self._sweeps:
            sweep()
        for seconds in (0.2, 0.2):
            self.world.pass_seconds(seconds)
            self._guarded(self.world.enforcer.reconcile)
            self._check_changes()
        if self.world.steady_ms - self._trouble_ms > CALM_MS:
            self._check_ends()
            self._check_starts()

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Crash:
            self.world.faults.crash_at = None
            self.world.restart()
            # A process that starts looks at once, so that it notices a clock that was set back.
            with suppress(TableError, LeaseStoreError):
                self.world.enforcer.reconcile()
            self._trouble_ms = self.world.steady_ms
        except (TableError, LeaseStoreError):
            self._trouble_ms = self.world.steady_ms
        if self.world.broker.errors or self.world.holds.error or self._sweeps:
            self._trouble_ms = self.world.steady_ms

    def _check_changes(self) -> None:
        """Each change since the last look is about somebody who was decided about."""
        altered, self._seen = self.world.broker.altered[self._seen :], len(self.world.broker.altered)
        guilty = {told.user for told in self._told} - {NEVER}
        for change in altered:
            entity = change.entity
            if entity.user is not None and entity.user not in {*guilty, CANARY}:
                self._wrong(f"{entity} was touched")
            if entity.ip and change.value == OURS[CONNECTION_CREATION_RATE]:
                users = self.world.use.by_address.get(entity.ip, set())
                if len(users) > 1 or not users <= {f"User:{user}" for user in guilty}:
                    self._wrong(f"{entity} was limited, which {users} used")
        if not self._by_hand <= self.world.holds.bindings:
            self._wrong("a hold by hand is gone")
        for hold in self.world.holds.bindings - self._by_hand:
            if hold.user not in {*guilty, CANARY}:
                self._wrong(f"{hold} was set")

    def _check_ends(self) -> None:
        """Nothing of ours is in force without a decision that is."""
        now_ms = self.world.now_ms
        for user in USERS:
            if (self._is_released(user) or self._is_over(user)) and (found := self._settings_of(user)):
                self._wrong(f"{user} is still throttled: {found}")
        if self._has_stepped:
            return
        latest_ms = now_ms + MAX_HOLD_MS
        for hold in self._ours():
            if hold.until_ms > min(latest_ms, max(self._end_ms(hold.user), now_ms)):
                self._wrong(f"{hold} outlives its decision by {hold.until_ms - self._end_ms(hold.user)} ms")

    def _check_starts(self) -> None:
        """A decision in force throttles its user, unless a disturbing step came before."""
        # If neither table nor topic contains a stop, the next enforcer takes the removed setting for somebody's change.
        if _DISTURBING.intersection(self.done) or {"break_tables", "break_topic"} <= set(self.done):
            return
        soon_ms = self.world.now_ms + 1000
        for user in USERS:
            is_due = not self._is_released(user) and self._end_ms(user) > soon_ms
            # A limit on an address may be this user's.
            if is_due and not self._settings_of(user) and not any(entity.ip for entity in self._throttled()):
                self._wrong(f"{user} is not throttled until {self._end_ms(user)}, now {self.world.now_ms}")

    def _is_released(self, user: str) -> bool:
        now_ms = self.world.now_ms
        return any(order.principal in (None, f"User:{user}") and now_ms < order.until_ms for order in self._orders)

    def _settings_of(self, user: str) -> list[HoldBinding | QuotaEntity]:
        held = [each for each in self._ours() if each.user == user]
        return [*held, *(entity for entity in self._throttled() if entity.user == user)]

    def _ours(self) -> set[HoldBinding]:
        return {each for each in self.world.holds.bindings - self._by_hand if each.user != CANARY}

    def _throttled(self) -> list[QuotaEntity]:
        return [
            entity
            for entity, values in self.world.broker.quotas.items()
            if any(values.get(key) == value for key, value in OURS.items())
        ]

    def _end_ms(self, user: str) -> int:
        return max((_end_ms(told) for told in self._believed(user)), default=0)

    def _is_over(self, user: str) -> bool:
        """Whether all decisions have ended, by the brokers' time or by the time since an enforcer first saw them."""
        now_ms, steady_ms, seen_ms = self.world.now_ms, self.world.steady_ms, self._trouble_ms
        return all(
            _end_ms(told) <= now_ms
            or (
                # One that is dated ahead is believed later.
                not told.is_ahead and max(told.written_ms, seen_ms) + _end_ms(told) - told.decided_at_ms <= steady_ms
            )
            for told in self._believed(user)
        )

    def _believed(self, user: str) -> list[Told]:
        """The newest decisions of a user; any that was dated ahead may count, as time passes."""
        latest_ms = self.world.now_ms + MAX_AHEAD_MS
        own = [told for told in self._told if told.user == user]
        if self._has_stepped:
            # Which one is the newest can't be told by the brokers' time.
            return own
        newest = sorted((told for told in own if not told.is_ahead), key=lambda told: told.decided_at_ms)[-1:]
        return [*newest, *(told for told in own if told.is_ahead and told.decided_at_ms <= latest_ms)]

    def _end(self) -> None:
        self.mend()
        self._sweeps.clear()
        self.world.faults.crash_at = None
        self.world.lock.held = True
        # Twice: what is dated ahead may be believed after a while.
        for seconds in (16, 16, MAX_LEASE_MS / 500, 16, 16, MAX_LEASE_MS / 500, *(16,) * 4):
            self.world.pass_seconds(seconds)
            self._guarded(self.world.enforcer.reconcile)
        if self._random.random() < 0.5:
            self.world.pass_seconds(700)
            self._guarded(self.world.enforcer.reconcile)
        else:
            self._guarded(lambda: self.world.enforcer.end_all("stopped"))
        if self.world.holds.bindings != self._by_hand:
            self._wrong(f"holds were left: {self.world.holds.bindings - self._by_hand}")
        if self.world.broker.quotas != self._admin:
            self._wrong(f"quotas are {self.world.broker.quotas}, and admins set {self._admin}")
        if self.world.enforcer.leases:
            self._wrong(f"leases are open: {self.world.enforcer.leases}")

    def _wrong(self, what: str) -> None:
        msg = f"{what}\nafter {' '.join(self.done)}"
        raise WrongError(msg)


def _end_ms(told: Told) -> int:
    return min(told.until_ms, told.decided_at_ms + MAX_LEASE_MS)


_DISTURBING = frozenset(
    {
        "lie",
        "set_brokers_clock",
        "admin_sets_quota",
        "admin_restores_quota",
        "admin_changes_holds",
        "reconciler_comes",
    }
)
"""Steps after which a decision in force may have no effect."""

_STEPS: tuple[Callable[[Walk], None], ...] = (
    *(Walk.decide, Walk.renew, Walk.change_quota, Walk.let_time_pass) * 3,
    Walk.lie,
    Walk.set_host_clock,
    Walk.set_brokers_clock,
    Walk.admin_sets_quota,
    Walk.admin_restores_quota,
    Walk.admin_changes_holds,
    Walk.reconciler_comes,
    Walk.reconciler_goes,
    Walk.kill,
    Walk.restart,
    Walk.take_lock,
    Walk.break_tables,
    Walk.break_topic,
    Walk.break_brokers,
    *(Walk.mend,) * 3,
    Walk.change_authorizer,
    Walk.move_clients,
    Walk.release,
)
