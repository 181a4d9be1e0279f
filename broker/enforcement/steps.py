"""Takes the next step of each lease, and retries transient failures."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from broker.enforcement.levers.base import LeaseChange, Lever, StepName, Stray
from broker.enforcement.levers.canary import Canary
from broker.enforcement.model import Clocks, Lease, LeaseState, LeverName, Target, ThrottleDecision
from broker.enforcement.notices import Notice, NoticeAction
from broker.errors import BrokerError, RequestNotAllowedError, RequestRefusedError

_BACKOFF_MS = (250, 500, 1_000, 2_000, 5_000, 15_000)
_STATES: Mapping[StepName, LeaseState] = {"confirm": "in_force", "close": "restored", "relinquish": "relinquished"}
"""State of a lease after each step that changes nothing on the brokers."""

LeaseReason = tuple[Lease, str]


class LeaseSteps:
    """The steps of leases. A failure for one target does not affect others."""

    def __init__(self, levers: Mapping[LeverName, Lever], clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        self._levers, self._clocks, self._notify = levers, clocks, notify
        self._failures: dict[Target, int] = {}
        self._retry_at: dict[Target, int] = {}
        self._notified_errors: dict[Target, str] = {}
        self.unverified: set[Target] = set()
        """Targets of leases that may differ from the brokers' settings."""

    def may_try(self, target: Target) -> bool:
        """Return False during the pause after a target's failure."""
        return self._retry_at.get(target, 0) <= self._clocks.steady_ms()

    def new_lease(self, decision: ThrottleDecision, target: Target, now_ms: int) -> Lease | str:
        """Return the lease to take, or the reason against it. The reason is empty after a BrokerError."""
        try:
            return self._levers[target.lever].new_lease(decision, target, now_ms)
        except BrokerError as error:
            self._back_off(target, decision.principal, error)
            return ""

    def take(self, leases: Sequence[Lease], now_ms: int) -> list[LeaseReason]:
        """Take the next step of each lease. Return the leases whose state changed, with reasons."""
        changes: dict[LeverName, list[tuple[LeaseChange, str]]] = {}
        outcomes: list[LeaseReason] = []
        for lease in leases:
            try:
                step = self._levers[lease.target.lever].next_step(lease, now_ms)
            except BrokerError as error:
                self._back_off(lease.target, lease.principal, error)
                continue
            self.unverified.discard(lease.target)
            canary = self._levers[lease.target.lever].canary
            if step.vanished and canary is not None:
                canary.suspect()
            if step.name in ("apply", "restore"):
                change = LeaseChange(lease, is_set=step.name == "apply")
                changes.setdefault(lease.target.lever, []).append((change, step.why))
            else:
                self._reset_backoff(lease.target)
                if step.name in _STATES:
                    why = step.why or ("found in force" if step.name == "confirm" else "")
                    outcomes.append((lease.to(_STATES[step.name]), why))
        for name, of_lever in changes.items():
            errors = self._levers[name].change([change for change, _ in of_lever])
            for change, why in of_lever:
                outcomes += self._outcome(change, errors.get(change.lease.target), why)
        return outcomes

    def _outcome(self, change: LeaseChange, error: BrokerError | None, why: str) -> list[LeaseReason]:
        lease = change.lease
        if error is None:
            self._reset_backoff(lease.target)
            if change.is_set and lease.state == "in_force":
                # Only the lease's end moved, and the end is already logged.
                return []
            return [(lease.to("in_force" if change.is_set else "restored"), why)]
        if change.is_set and lease.state == "applying" and isinstance(error, RequestRefusedError):
            return [(lease.to("failed"), str(error))]
        self.unverified.add(lease.target)
        self._back_off(lease.target, lease.principal, error)
        return []

    def _reset_backoff(self, target: Target) -> None:
        for each in (self._failures, self._retry_at, self._notified_errors):
            each.pop(target, None)

    def _back_off(self, target: Target, principal: str | None, error: BrokerError) -> None:
        failures = self._failures.get(target, 0)
        self._failures[target] = failures + 1
        wait_ms = _BACKOFF_MS[min(failures, len(_BACKOFF_MS) - 1)]
        self._retry_at[target] = self._clocks.steady_ms() + wait_ms
        if self._notified_errors.get(target) != str(error):
            self._notified_errors[target] = str(error)
            action: NoticeAction = "alert" if isinstance(error, RequestNotAllowedError) else "trying again"
            why = f"with pauses of up to {_BACKOFF_MS[-1] // 1000} s: {error}"
            self._notify(Notice(self._clocks.now_ms(), action, why, principal, target))


def for_each_canary(levers: Mapping[LeverName, Lever], call: Callable[[Canary], None]) -> None:
    """Call a function with each lever's canary. Ignore BrokerErrors."""
    for canary in [lever.canary for lever in levers.values() if lever.canary is not None]:
        with suppress(BrokerError):
            call(canary)


def clear_strays(
    levers: Mapping[LeverName, Lever],
    leases: Collection[Lease],
    now_ms: int,
    counts: Callable[[Stray], bool] = lambda _: True,
) -> tuple[list[Stray], list[BrokerError]]:
    """Remove each `Stray` that `counts` selects, unless an operator may have made the setting.

    Return the selected strays that remain, and the errors of levers.
    """
    left: list[Stray] = []
    errors: list[BrokerError] = []
    for lever in levers.values():
        try:
            left += [each for each in lever.strays(leases, now_ms) if counts(each) and not _is_removed(each)]
        except BrokerError as error:
            errors.append(error)
    return left, errors


def _is_removed(stray: Stray) -> bool:
    if stray.remove is None:
        return False
    try:
        stray.remove()
    except BrokerError:
        return False
    return True
