"""The lever `hold`: delays new producer ids of a user, and nothing else. Brokers need `pidquota.HoldAuthorizer`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from shlex import quote
from typing import Protocol

from broker.enforcement.levers.base import LeaseChange, NextStep, Stray, TargetLimits, Targets
from broker.enforcement.levers.canary import Canary
from broker.enforcement.model import CANARY, Clocks, Lease, LeverName, Pace, Target, ThrottleDecision
from broker.enforcement.notices import Notice, format_time
from broker.errors import BrokerError, RequestNotAllowedError
from broker.kafka.quota_entity import QuotaEntity
from wire.holds import HOLD_AUTHORIZER, MAX_HOLD_MS, HoldBinding

_USER = "User:"
_CANARY_ID = "canary"
_CANARY_MS = 600_000
_REFUSED_MS = 30_000
"""How long to use other levers after the brokers refused a hold."""
_LOOK_EVERY_MS = 30_000
_LACKS = f"no hold is used before every broker has {HOLD_AUTHORIZER} (docs/authorizer.md)"


class HoldStore(Protocol):
    """The holds of a cluster; see `HoldBindings`."""

    def of_user(self, user: str) -> list[HoldBinding]:
        """Return the holds of a user."""

    def all(self) -> list[HoldBinding]:
        """Return all holds."""

    def add(self, hold: HoldBinding) -> None:
        """Set a hold."""

    def remove(self, holds: Collection[HoldBinding]) -> None:
        """Remove holds; skip holds that are gone."""


class Hold:
    """A lever that sets holds. It reads the brokers' authorizers at most every 30 s, and reports changes."""

    name: LeverName = "hold"
    suffices = True

    def __init__(
        self,
        holds: HoldStore,
        authorizers: Callable[[], Mapping[int, str]],
        clocks: Clocks,
        notify: Callable[[Notice], None],
    ) -> None:
        self._holds, self._authorizers, self._clocks, self._notify = holds, authorizers, clocks, notify
        self._known: Mapping[int, str] = {}
        self._lacking = ""
        self._pace = Pace(clocks.steady_ms, _LOOK_EVERY_MS)
        self.canary = Canary(self, "ACLs", clocks, notify)
        self._refused_until_ms: int | None = None

    def unavailable_reason(self) -> str:
        """Return why holds can't be used, or an empty text."""
        if self._refused_until_ms is not None and self._clocks.steady_ms() < self._refused_until_ms:
            return "this user may not change ACLs"
        if self._pace.is_due():
            try:
                self._learn(self._authorizers())
            except BrokerError as error:
                # Keep the last answer, because a broker's authorizer changes only when the broker restarts.
                if not self._known:
                    self._lacking = f"the brokers' authorizers can't be read ({error})"
        return self._lacking or self.canary.reconciler_reason()

    def _learn(self, found: Mapping[int, str]) -> None:
        lacking = [number for number, name in found.items() if name != HOLD_AUTHORIZER]
        for number, name in found.items():
            if self._known.get(number) != name:
                what = _LACKS if number in lacking else "a hold delays new producer ids there"
                why = f"broker {number} has {name or 'no authorizer'}: {what}"
                self._notify(Notice(self._clocks.now_ms(), "lever", why))
        self._known = dict(found)
        numbers = ", ".join(map(str, lacking))
        self._lacking = f"not every broker has the authorizer (not {numbers})" if lacking else ""

    def targets(self, decision: ThrottleDecision, _limits: TargetLimits) -> Targets:
        """Choose the user. Principals of other types can't be held."""
        name = decision.principal.removeprefix(_USER)
        if name == decision.principal or name in ("", "*"):
            return Targets((), "a hold applies only to principals of type User")
        return Targets((Target(self.name, QuotaEntity(name)),), "its known PIDs keep working")

    def new_lease(self, decision: ThrottleDecision, target: Target, now_ms: int) -> Lease | str:
        """Return a lease, or why there is none: a hold that was set by hand lasts at least as long as the decision."""
        by_hand = [each for each in self._of(target) if each.lease_id is None and _is_in_force(each, now_ms)]
        longest = max((each.until_ms for each in by_hand), default=0)
        if longest >= decision.throttled_until_ms:
            return f"{target.entity} is already on hold until {format_time(longest)}, set by someone else"
        return Lease.of(decision, target, now_ms)

    def next_step(self, lease: Lease, now_ms: int) -> NextStep:
        """Compare the ends of the lease's holds on the brokers with the lease's end."""
        return next_step(lease, {each.until_ms for each in self._own(lease)}, now_ms)

    def change(self, changes: Sequence[LeaseChange]) -> Mapping[Target, BrokerError | None]:
        """Replace each lease's holds by a hold with the lease's end, or remove them."""
        errors: dict[Target, BrokerError | None] = {}
        for change in changes:
            errors[change.lease.target] = None
            try:
                self._set(change.lease, is_set=change.is_set)
            except BrokerError as error:
                errors[change.lease.target] = error
                if isinstance(error, RequestNotAllowedError):
                    self._refused_until_ms = self._clocks.steady_ms() + _REFUSED_MS
        return errors

    def _set(self, lease: Lease, *, is_set: bool) -> None:
        new = HoldBinding(lease.target.entity.user or "", lease.until_ms, lease.lease_id)
        own = self._own(lease)
        if is_set and new not in own:
            # Add the new hold before removing the old hold, so that the user is always on hold.
            self._holds.add(new)
        self._holds.remove([each for each in own if not (is_set and each == new)])

    def strays(self, known: Collection[Lease], now_ms: int) -> list[Stray]:
        """Find holds of leases that are not open, and holds in force that were set by hand."""
        leases = {lease.lease_id for lease in known}
        found = [each for each in self._holds.all() if each.lease_id not in leases]
        if self.canary.is_watched:
            found = [each for each in found if each.user != CANARY]
        return [self._stray(each) for each in found if each.lease_id or _is_in_force(each, now_ms)]

    def has_canary(self) -> bool:
        """Whether the brokers have a hold on the canary."""
        return bool(self._holds.of_user(CANARY))

    def write_canary(self, *, is_set: bool) -> None:
        """Set or remove a hold on the canary."""
        if is_set:
            self._holds.add(HoldBinding(CANARY, self._clocks.now_ms() + _CANARY_MS, _CANARY_ID))
        else:
            self._holds.remove(self._holds.of_user(CANARY))

    def _stray(self, hold: HoldBinding) -> Stray:
        command = (
            f"kafka-acls.sh --remove --deny-principal {quote(_USER + hold.user)} --operation Write --topic {hold.name}"
        )
        why = f"user {hold.user!r} is on hold until {format_time(hold.until_ms)}, and no lease is open on it"
        remove = None if hold.lease_id is None else partial(self._holds.remove, [hold])
        return Stray(Target(self.name, QuotaEntity(hold.user)), why, command, remove)

    def _of(self, target: Target) -> list[HoldBinding]:
        return self._holds.of_user(target.entity.user or "")

    def _own(self, lease: Lease) -> list[HoldBinding]:
        return [each for each in self._of(lease.target) if each.lease_id == lease.lease_id]


def next_step(lease: Lease, found: Collection[int], now_ms: int) -> NextStep:
    """Return the next step of an open lease. `found` has the ends of all holds with the lease's id.

    Examples:
        >>> lease = Lease("1", "User:m", Target("hold", QuotaEntity("m")), 2000, "d")
        >>> [next_step(lease, found, 1000).name for found in ([], [1500], [2000], [2000, 3000])]
        ['apply', 'apply', 'confirm', 'apply']
        >>> [next_step(lease.to("in_force"), found, 1000).name for found in ([], [3000], [2000])]
        ['relinquish', 'apply', 'keep']
        >>> [next_step(lease, found, 2000).name for found in ([], [2000, 3000])]
        ['close', 'restore']
    """
    if lease.state == "restoring" or lease.is_due(now_ms):
        return NextStep("restore" if found else "close")
    if {*found} == {lease.until_ms}:
        return NextStep("confirm" if lease.state == "applying" else "keep")
    if found or lease.state == "applying":
        return NextStep("apply")
    return NextStep("relinquish", "someone else removed the hold", vanished=True)


def _is_in_force(hold: HoldBinding, now_ms: int) -> bool:
    return now_ms < hold.until_ms <= now_ms + MAX_HOLD_MS
