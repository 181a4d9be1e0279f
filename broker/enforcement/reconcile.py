"""Carries out decisions through levers, and ends each lease in time.

New and extended leases are logged before the brokers change, so the successor of a killed enforcer finds them. After
a failure the enforcer fails open: leases end, and none is taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from broker.enforcement.clock import ClockSteps, Deadlines
from broker.enforcement.lease_registry import LeaseRegistry
from broker.enforcement.model import Clocks, Lease, LeaseState, Pace, Target, ThrottleDecision
from broker.enforcement.notices import Notice, NoticeAction
from broker.enforcement.planner import EnforcerOptions, LeasePlan, Planner
from broker.enforcement.ports import EnforcerPorts
from broker.enforcement.steps import LeaseReason, LeaseSteps, clear_strays, for_each_canary

_ACTIONS: dict[LeaseState, NoticeAction] = {
    "in_force": "throttled",
    "restored": "restored",
    "relinquished": "relinquished",
    "failed": "failed",
}

_VERIFY_EVERY_MS = 5_000
_STRAYS_EVERY_MS = 60_000
_MAX_STRAY_ALERTS = 10


class Enforcer:
    """The enforcer of decisions. It is not thread-safe. `name` identifies this process in the log."""

    def __init__(
        self,
        ports: EnforcerPorts,
        options: EnforcerOptions,
        clocks: Clocks,
        *,
        notify: Callable[[Notice], None],
        name: str,
    ) -> None:
        self._ports, self._clock_ms, self._notify = ports, clocks.now_ms, notify
        self._registry = LeaseRegistry(ports.log, ports.leases, name, options.hands_off_ms)
        self._steps = LeaseSteps(ports.levers, clocks, notify)
        self._deadlines = Deadlines(clocks.steady_ms)
        self._planner = Planner(ports.levers, options, self._deadlines, notify)
        self._verify = Pace(clocks.steady_ms, _VERIFY_EVERY_MS)
        self._stray_pace = Pace(clocks.steady_ms, _STRAYS_EVERY_MS)
        self._alerted_strays: set[str] = set()
        self._active: bool | None = None
        self._times_taken = 0
        self._is_new = False
        self._only_new = False
        """Whether the next read of the decisions must leave out all that were written so far."""
        self._clock_steps = ClockSteps(lambda: (clocks.now_ms(), clocks.steady_ms()))
        self._bad_rows = 0

    @property
    def leases(self) -> dict[Target, Lease]:
        """Open leases by target."""
        return dict(self._registry.leases)

    @property
    def is_active(self) -> bool:
        """Whether we held the lock at the last reconciliation."""
        return bool(self._active)

    def reconcile(self) -> None:
        """Take, extend and end leases as decisions and deadlines require. Due leases end even if this raises an error.

        Raises EnforcerLockError if Kafka refuses the lock. All other errors are safe to retry.
        """
        if not self._holds_lock():
            return
        failure: Exception | None = None
        promised: list[LeaseReason] = []
        try:
            self._registry.read_orders()
            promised = self._write_ahead()
        except Exception as error:  # from any table engine: leases must end first
            failure = error
        self._advance(promised)
        for_each_canary(self._ports.levers, lambda canary: canary.look())
        if failure is not None:
            raise failure

    def has_news(self) -> bool:
        """Whether there may be new decisions: true once per version of the table."""
        return self._ports.decisions.has_news()

    def end_due(self) -> None:
        """End due leases without reading the tables."""
        if not self._holds_lock():
            return
        # Advance first, because reading a deleted topic fails only after seconds.
        self._advance([])
        self._registry.read_orders()
        self._advance([])

    def end_all(self, why: str) -> list[Lease]:
        """End every lease. Return the leases that could not be ended."""
        if self._active and not self._ports.lock.is_held():
            self._stand_by()
        if self._active:
            self._planner.clear()
            self._work([], [lease.to("restoring") for lease in self._registry.leases.values()], why)
            if not self._registry.leases and self._ports.lock.confirm():
                for_each_canary(self._ports.levers, lambda canary: canary.close())
                clear_strays(self._ports.levers, (), self._clock_ms())
        return list(self._registry.leases.values())

    def alert(self, why: str) -> None:
        """Log a warning, and send it as a notice."""
        now_ms = self._clock_ms()
        if self._active:
            self._registry.record_alert(why, now_ms)
        self._notify(Notice(now_ms, "alert", why))

    def _holds_lock(self) -> bool:
        if not self._ports.lock.is_held():
            self._stand_by()
            return False
        if not self._active or self._times_taken != self._ports.lock.times_taken:
            # Since this enforcer last held the lock, another enforcer may have changed leases.
            self._planner.clear()
            self._take_over()
        self._follow_clock()
        return True

    def _follow_clock(self) -> None:
        """If the brokers' clock was set back, shorten all leases by that time.

        If the clock was set back before this enforcer took the lock, end all leases, because their remaining time is
        unknown.
        """
        if set_back_ms := self._clock_steps.set_back_ms():
            self._only_new = self._is_new
            why = f"the brokers' clock was set back by {set_back_ms / 1000:.0f} s"
            effect = (
                "leases end, and older decisions do not count" if self._is_new else "leases are shortened by that time"
            )
            self.alert(f"{why}: {effect}. Check time synchronization on the brokers' hosts")
            leases = self._registry.shorten(None if self._is_new else set_back_ms, why, self._clock_ms())
            self._steps.unverified |= {lease.target for lease in leases}

    def _stand_by(self) -> None:
        if self._active is not False:
            lost = "lost the lock" if self._active else "another enforcer holds the lock, or Kafka has not assigned it"
            self._notify(Notice(self._clock_ms(), "lock", f"{lost}: waiting"))
        self._active = False
        self._registry.clear()
        self._planner.clear()

    def _take_over(self) -> None:
        self._registry.load()
        # Leases are verified once the table is read, because it may contain ends that the topic lacks.
        self._steps.unverified = set()
        self._active = self._is_new = True
        self._times_taken = self._ports.lock.times_taken
        self._clock_steps.start(self._registry.seen_ms)
        self._notify(
            Notice(self._clock_ms(), "lock", f"holding the lock; open leases found: {len(self._registry.leases)}")
        )

    def _write_ahead(self) -> list[LeaseReason]:
        now_ms = self._clock_ms()
        decisions = self._ports.decisions.newest(now_ms, again=self._is_new, only_new=self._only_new)
        ends_ms = self._planner.receive(decisions, now_ms)
        self._is_new = self._only_new = False
        # A decision shortens leases even if the table of actions can't be read.
        self._shorten(ends_ms, now_ms)
        found = self._registry.refresh()
        self._steps.unverified |= {lease.target for lease in found}
        if found:
            self._notify(Notice(now_ms, "lock", f"open leases found in the table only: {len(found)}"))
        if self._stray_pace.is_due():
            self._clear_strays()
        self._alert_of_bad_rows()
        # Shorten the leases that were found in the table, as well.
        self._shorten(ends_ms, now_ms)
        fresh, longer = self._plan(now_ms)
        if not (fresh or longer) or not self._ports.lock.confirm():
            # The lock is lost or Kafka does not answer. The next reconciliation retries.
            return []
        logged = [*fresh, *((lease, "still over its quota") for lease in longer)]
        self._registry.write_ahead(logged, now_ms)
        for lease in longer:
            self._notify(Notice.of(lease, now_ms, "extended", "still over its quota"))
        return logged

    def _shorten(self, ends_ms: Mapping[str, int], now_ms: int) -> None:
        leases = [
            lease.ending(ends_ms[lease.principal], now_ms)
            for lease in self._registry.leases.values()
            if ends_ms.get(lease.principal, lease.until_ms) < lease.until_ms
        ]
        why = "its throttle ends sooner: the quota was raised or removed"
        self._registry.record([(lease, why) for lease in leases], now_ms)
        self._steps.unverified |= {lease.target for lease in leases}
        for lease in leases:
            self._notify(Notice.of(lease, now_ms, "shortened", why))

    def _plan(self, now_ms: int) -> tuple[list[LeaseReason], list[Lease]]:
        known = self._registry.known()
        fresh: dict[Target, LeaseReason] = {}
        longer: dict[Target, Lease] = {}
        for decision in self._planner.in_force(now_ms, self._registry.leases.values()):
            what = self._planner.plan(decision, known, now_ms)
            for lease in what.extend:
                extended = lease.ending(decision.throttled_until_ms, now_ms, decision.decision_id)
                if lease.target in fresh:
                    # The lease is not taken yet, so it starts with the later end.
                    fresh[lease.target] = (extended, fresh[lease.target][1])
                else:
                    longer[lease.target] = extended
            fresh |= self._new_leases(decision, what, now_ms)
            known = known.with_leases([*longer.values(), *(lease for lease, _ in fresh.values())])
        return list(fresh.values()), list(longer.values())

    def _new_leases(self, decision: ThrottleDecision, what: LeasePlan, now_ms: int) -> dict[Target, LeaseReason]:
        quota = "" if decision.quota is None else f", quota {decision.quota:g}"
        why = f"{decision.refused_pids} PID{'' if decision.refused_pids == 1 else 's'} refused{quota}; {what.why}"
        found: dict[Target, LeaseReason] = {}
        for target in filter(self._steps.may_try, what.take):
            lease = self._steps.new_lease(decision, target, now_ms)
            if isinstance(lease, Lease):
                found[target] = (lease, why)
            elif lease:
                self._planner.skip(decision, lease, now_ms)
        return found

    def _clear_strays(self) -> None:
        """Remove strays (see `Stray`) that are certainly ours. Alert once about each other stray."""
        others = self._ports.others()
        if others is None or not self._ports.lock.confirm():
            return
        found, _ = clear_strays(self._ports.levers, self._registry.leases.values(), self._clock_ms())
        # A later call retries failed removals.
        foreign = [each for each in found if each.remove is None and each.target not in others]
        for stray in [each for each in foreign if each.command not in self._alerted_strays][:_MAX_STRAY_ALERTS]:
            self._alerted_strays.add(stray.command)
            self.alert(f"{stray.why}: unless someone set it on purpose, clear it with {stray.command}")

    def _alert_of_bad_rows(self) -> None:
        before, self._bad_rows = self._bad_rows, self._ports.decisions.bad_rows
        if self._bad_rows > before:
            self.alert(
                f"skipped rows of throttle_decisions that are incomplete, or dated ahead of the brokers' clock: "
                f"{self._bad_rows}. Check who writes that table"
            )

    def _advance(self, promised: list[LeaseReason]) -> None:
        """Take the next step of each lease that was logged (`promised`), is due, or may differ from the brokers."""
        now_ms = self._clock_ms()
        names = {lease.target for lease, _ in promised}
        rest = [lease for lease in self._registry.leases.values() if lease.target not in names]
        if self._registry.is_complete and self._verify.is_due():
            # Someone else may have changed our values. The last holder of the lock may have died before it logged them.
            self._steps.unverified |= {lease.target for lease in rest}
        rest = [self._ended_if_due(lease, now_ms) for lease in rest if self._steps.may_try(lease.target)]
        changed = [lease for lease in rest if lease.state != "in_force" or lease.target in self._steps.unverified]
        if promised or changed:
            self._work(promised, changed)
        self._deadlines.retain(
            {*self._planner.decision_ids, *(lease.decision_id for lease in self._registry.leases.values())}
        )

    def _ended_if_due(self, lease: Lease, now_ms: int) -> Lease:
        if lease.state == "restoring":
            return lease
        if self._registry.known().releases.covers(lease.principal, now_ms):
            return lease.to("restoring")
        if lease.is_due(now_ms) or self._deadlines.end_ms(lease.decision_id, lease.until_ms, now_ms) <= now_ms:
            # The monotonic clock may reach the end before the brokers' clock does. Move the end, so that the lease is
            # not taken again.
            return replace(lease.to("restoring"), until_ms=min(lease.until_ms, now_ms))
        return lease

    def _work(self, promised: list[LeaseReason], changed: list[Lease], order: str = "") -> None:
        if not self._ports.lock.confirm():
            return
        now_ms = self._clock_ms()
        # Step 1. Log intents to end leases. If the log can't be written, leases still end.
        news = [
            (lease, order or ("its time is over" if lease.is_due(now_ms) else "released by order"))
            for lease in changed
            if lease not in self._registry.leases.values()
        ]
        self._registry.record(news, now_ms)
        self._try_to_flush()
        # Step 2. Change the brokers.
        outcomes = self._steps.take([*(lease for lease, _ in promised), *changed], now_ms)
        # Step 3. Log the outcomes.
        reasons = {lease.lease_id: why for lease, why in (*promised, *news)}
        ended = [(after, why or reasons.get(after.lease_id) or "after a retry") for after, why in outcomes]
        self._registry.record(ended, self._clock_ms())
        self._try_to_flush()
        for lease, why in ended:
            self._notify(Notice.of(lease, self._clock_ms(), _ACTIONS[lease.state], why))

    def _try_to_flush(self) -> None:
        try:
            self._registry.flush()
        except Exception:  # the next reconciliation retries and raises
            return
