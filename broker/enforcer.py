"""Carries decisions out as client quotas and takes these back in time: one `turn` after another, until it is stopped.

Every change is written down before the broker hears of it and again when it is done (`broker.leases`), so a new
enforcer finds what a killed one left behind. Whatever goes wrong, a lease only ever ends.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence

from broker.client_quotas import QuotaChange
from broker.enforcer_book import EnforcerBook
from broker.enforcer_notices import Notice, NoticeKind, value_text
from broker.enforcer_plan import EnforcerOptions, Plan, clipped, plan
from broker.enforcer_ports import ActionLog, DecisionSource, Lock, QuotaStore
from broker.errors import BrokerError, ClientQuotaError, ClientQuotaRefusedError
from broker.lease_targets import ThrottleDecision
from broker.leases import Lease, LeaseState, next_step
from broker.quota_entity import QuotaEntity

_BACKOFF_MS = (250, 500, 1_000, 2_000, 5_000, 15_000)
_MAX_SAID = 10_000

_KINDS: dict[LeaseState, NoticeKind] = {
    "in_force": "throttled",
    "restored": "restored",
    "let_go": "let go",
    "failed": "failed",
}

_Told = tuple[Lease, str]
"""A lease and why it is as it is."""


class Enforcer:
    """The enforcer. Not for several threads."""

    def __init__(
        self,
        decisions: DecisionSource,
        log: ActionLog,
        quotas: QuotaStore,
        lock: Lock,
        options: EnforcerOptions,
        *,
        clock_ms: Callable[[], int],
        say: Callable[[Notice], None],
        name: str,
    ) -> None:
        """Nothing is read yet.

        Args:
            decisions: Where decisions come from.
            log: Where actions are written down.
            quotas: The broker's client quotas.
            lock: Keeps enforcers one at a time.
            options: What it may do.
            clock_ms: The time, in milliseconds since the epoch.
            say: Takes a notice of each action.
            name: Of this process, for the log.
        """
        self._decisions, self._quotas, self._lock = decisions, quotas, lock
        self._options, self._clock_ms, self._say = options, clock_ms, say
        self._book = EnforcerBook(log, name, options.hands_off_ms)
        self._active: bool | None = None
        self._pending: dict[str, ThrottleDecision] = {}
        self._unchecked: set[QuotaEntity] = set()
        self._failures: dict[QuotaEntity, int] = {}
        self._retry_at_ms: dict[QuotaEntity, int] = {}
        self._said: set[tuple[str, str]] = set()

    @property
    def leases(self) -> dict[QuotaEntity, Lease]:
        """Open leases by entity."""
        return dict(self._book.leases)

    @property
    def is_active(self) -> bool:
        """Whether we held the lock in the last turn."""
        return bool(self._active)

    def turn(self) -> None:
        """Do all there is to do now; waits for Kafka and the tables only.

        Raises:
            EnforcerLockError: If Kafka refuses us the lock.
            Exception: Of the log or the decisions, if they can't be read or written; the turn may be taken again.
        """
        if not self._lock.is_held():
            self._stand_by()
            return
        if not self._active:
            self._take_over()
        self._book.refresh()
        now_ms = self._clock_ms()
        self._receive(self._decisions.in_force(now_ms), now_ms)
        self._carry_out(now_ms)

    def end_all(self, why: str) -> list[Lease]:
        """Restore every quota now, as before a stop; returns the leases that could not be ended."""
        if self._active and self._lock.is_held():
            self._pending.clear()
            self._work([], [lease.to("restoring") for lease in self._book.leases.values()], why)
        return list(self._book.leases.values())

    def alert(self, why: str, principal: str | None = None) -> None:
        """Write a warning down and say it."""
        now_ms = self._clock_ms()
        if self._active:
            self._book.write_alert(why, principal, now_ms)
        self._say(Notice(now_ms, "alert", why, principal))

    # Steps of a turn

    def _stand_by(self) -> None:
        if self._active is not False:
            lost = "lost the lock" if self._active else "another enforcer holds the lock, or it is not given yet"
            self._say(Notice(self._clock_ms(), "lock", f"{lost}: waiting"))
        self._active = False
        self._book.forget()
        self._pending.clear()

    def _take_over(self) -> None:
        self._book.load()
        now_ms = self._clock_ms()
        # What is open may have been left in the middle of a step.
        self._unchecked = set(self._book.leases)
        self._receive(self._decisions.in_force(now_ms, again=True), now_ms)
        self._active = True
        self._say(Notice(now_ms, "lock", f"holding the lock; open leases found: {len(self._unchecked)}"))

    def _receive(self, decisions: Iterable[ThrottleDecision], now_ms: int) -> None:
        for decision in decisions:
            if decision.decision_id not in self._pending:
                self._pending[decision.decision_id] = clipped(decision, now_ms, self._options)

    def _carry_out(self, now_ms: int) -> None:
        known = self._book.known()
        fresh: list[_Told] = []
        extended: list[Lease] = []
        for decision in list(self._pending.values()):
            if decision.throttled_until_ms <= now_ms:
                del self._pending[decision.decision_id]
                continue
            what = plan(decision, now_ms, self._options, known)
            if what.skipped:
                self._say_once(decision, what.skipped)
            longer = [what.longer(lease, decision) for lease in what.extend]
            new = self._new_leases(decision, what, now_ms)
            extended = [lease for lease in extended if lease.entity not in {other.entity for other in longer}] + longer
            fresh += new
            known = known.with_leases({lease.entity: lease for lease in (*longer, *(lease for lease, _ in new))})
        settled = {lease.entity for lease in extended}
        rest = [lease for lease in self._book.leases.values() if lease.entity not in settled]
        due = [self._ended_if_due(lease, now_ms) for lease in rest if self._retry_at_ms.get(lease.entity, 0) <= now_ms]
        changed = extended + [lease for lease in due if lease.state != "in_force" or lease.entity in self._unchecked]
        if fresh or changed:
            self._work(fresh, changed)

    def _ended_if_due(self, lease: Lease, now_ms: int) -> Lease:
        held = self._book.known().holds.covers(lease.principal, now_ms)
        return lease.to("restoring") if held or lease.is_due(now_ms) else lease

    def _new_leases(self, decision: ThrottleDecision, what: Plan, now_ms: int) -> list[_Told]:
        taken = []
        key, value = self._options.lever, self._options.value
        for entity in what.take:
            if self._retry_at_ms.get(entity, 0) > now_ms:
                continue
            try:
                previous = self._quotas.describe(entity).get(key)
            except BrokerError as error:
                self._failed(entity, decision.principal, error, now_ms)
                continue
            if previous is not None and previous <= value:
                self._say_once(decision, f"the {key} of {entity} is {value_text(previous)} already")
                continue
            lease = Lease(
                uuid.uuid4().hex,
                decision.principal,
                entity,
                key,
                previous,
                value,
                decision.throttled_until_ms,
                decision.decision_id,
            )
            quota = "" if decision.quota is None else f", quota {decision.quota:g}"
            taken.append((lease, f"{decision.refused_pids} PIDs refused{quota}; {what.why}"))
        return taken

    def _work(self, fresh: Sequence[_Told], changed: Sequence[Lease], order: str = "") -> None:
        """Write the intents down, do them, write down what became of them."""
        if not self._lock.confirm():
            # Lost, or Kafka does not answer: the next turn will see.
            return
        now_ms = self._clock_ms()
        # Step 1. Intents. If they can't be written down, nothing happens.
        news = [lease for lease in changed if lease != self._book.leases.get(lease.entity)]
        intents = [*fresh, *((lease, order or _reason(lease, now_ms)) for lease in news)]
        self._book.write(intents, now_ms)
        for lease, why in intents:
            if lease.state == "in_force":
                self._say(Notice.of(lease, now_ms, "extended", why))
        # Step 2. The broker.
        outcomes = self._take_steps([*(lease for lease, _ in fresh), *changed], now_ms)
        # Step 3. Outcomes. If they can't be written down, the next turn finds the broker as it is now.
        reasons = {lease.entity: why for lease, why in intents}
        told = [(after, why or reasons.get(after.entity) or "after a retry") for after, why in outcomes]
        self._book.write(told, self._clock_ms())
        for lease, why in told:
            self._say(Notice.of(lease, self._clock_ms(), _KINDS[lease.state], why))

    def _take_steps(self, leases: Sequence[Lease], now_ms: int) -> list[_Told]:
        changes: dict[QuotaEntity, tuple[Lease, QuotaChange]] = {}
        outcomes: list[_Told] = []
        for lease in leases:
            try:
                found = self._quotas.describe(lease.entity).get(lease.quota_key)
            except BrokerError as error:
                self._failed(lease.entity, lease.principal, error, now_ms)
                continue
            self._unchecked.discard(lease.entity)
            step = next_step(lease, found, now_ms)
            if step in ("apply", "restore"):
                value = lease.enforced if step == "apply" else lease.previous
                changes[lease.entity] = (lease, QuotaChange(lease.entity, lease.quota_key, value))
                continue
            self._calm(lease.entity)
            if step == "confirm":
                outcomes.append((lease.to("in_force"), "found in force"))
            elif step == "close":
                outcomes.append((lease.to("restored"), ""))
            elif step == "let_go":
                outcomes.append((lease.to("let_go"), f"somebody else made it {value_text(found)}, which stays"))
        if changes:
            errors = self._quotas.alter([change for _, change in changes.values()])
            for entity, (lease, change) in changes.items():
                outcomes += self._outcome(lease, change, errors.get(entity), now_ms)
        return outcomes

    def _outcome(self, lease: Lease, change: QuotaChange, error: ClientQuotaError | None, now_ms: int) -> list[_Told]:
        applying = change.value == lease.enforced
        if error is None:
            self._calm(lease.entity)
            return [(lease.to("in_force" if applying else "restored"), "")]
        if applying and isinstance(error, ClientQuotaRefusedError):
            return [(lease.to("failed"), str(error))]
        self._failed(lease.entity, lease.principal, error, now_ms)
        return []

    # Helpers

    def _calm(self, entity: QuotaEntity) -> None:
        self._failures.pop(entity, None)
        self._retry_at_ms.pop(entity, None)

    def _failed(self, entity: QuotaEntity, principal: str, error: BrokerError, now_ms: int) -> None:
        failures = self._failures.get(entity, 0)
        self._failures[entity] = failures + 1
        wait_ms = _BACKOFF_MS[min(failures, len(_BACKOFF_MS) - 1)]
        self._retry_at_ms[entity] = now_ms + wait_ms
        self._say(Notice(now_ms, "trying again", f"in {wait_ms / 1000:g} s: {error}", principal, entity))

    def _say_once(self, decision: ThrottleDecision, why: str) -> None:
        if (decision.decision_id, why) in self._said:
            return
        if len(self._said) >= _MAX_SAID:
            self._said.clear()
        self._said.add((decision.decision_id, why))
        self._say(Notice(self._clock_ms(), "skipped", why, decision.principal, decision_id=decision.decision_id))


def _reason(lease: Lease, now_ms: int) -> str:
    if lease.state != "restoring":
        return "still over its quota"
    return "its time is over" if lease.is_due(now_ms) else "released by order"
