"""Assembles and runs an enforcer, or ends throttles."""

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from broker.enforcement.broker_clock import BrokerClock, steady_ms, wall_ms
from broker.enforcement.clock import BrokersTime
from broker.enforcement.dry_run import DiscardedRecords, DryRunHolds, DryRunQuotas, NoLock, without_lock
from broker.enforcement.first_look import look_at_brokers, look_at_decisions, require_rights
from broker.enforcement.levers.registry import levers
from broker.enforcement.lock import EnforcerLock
from broker.enforcement.loop import Loop
from broker.enforcement.metrics import EnforcerMetrics
from broker.enforcement.model import Clocks, ThrottleDecision
from broker.enforcement.notices import Notice
from broker.enforcement.planner import EnforcerOptions
from broker.enforcement.ports import DecisionSource, EnforcerPorts
from broker.enforcement.reconcile import Enforcer
from broker.enforcement.release import Release
from broker.enforcement.store.event_addresses import EventAddresses
from broker.enforcement.store.lease_topic import LeaseTopic, kept_leases, leases_of_others
from broker.enforcement.store.tables import DECISIONS, ActionTable, DecisionTable, follow_writes, require_readable
from broker.enforcement.stream_watch import StreamWatch
from broker.errors import EnforcerLockError
from broker.kafka.config import KafkaConfig
from broker.kafka.holds import HoldBindings
from broker.kafka.quotas import ClientQuotas
from jobs.output.progress import print_status, progress_bar
from tables.errors import TableError, TableVersionError
from tables.store.base import TableStore
from tables.store.open import open_store
from wire.holds import HOLD_AUTHORIZER

RIGHTS_TIMEOUT_S = 15.0
"""Timeout of the check of the Kafka user's rights."""


@dataclass(frozen=True)
class EnforceJob:
    """The settings of an enforcer."""

    kafka: KafkaConfig
    tables: str
    options: EnforcerOptions
    apply: bool
    poll_seconds: float | None
    notify: Callable[[Notice], None]


@dataclass(frozen=True)
class _Parts:
    ports: EnforcerPorts
    clocks: Clocks
    tables: TableStore
    skew_ms: Callable[[], int]
    holds: HoldBindings
    quotas: ClientQuotas

    def enforcer(self, job: EnforceJob) -> Enforcer:
        notify = job.notify if job.apply else without_lock(job.notify)
        name = f"{socket.gethostname()}/{os.getpid()}"
        return Enforcer(self.ports, job.options, self.clocks, notify=notify, name=name)


def enforce_until(stop: threading.Event, stack: ExitStack, job: EnforceJob, metrics: EnforcerMetrics) -> None:
    """Carry out decisions until `stop` is set. If `job.apply` is false, only report effects."""
    if job.apply:
        _bring_up_to_date(job)
    else:
        require_readable(job.tables)
    parts = _open(stack, job)
    if not job.apply:
        now_ms = parts.clocks.now_ms()
        look_at_brokers(sorted(parts.holds.authorizers()), parts.quotas, job.notify, now_ms)
        look_at_decisions(parts.ports.decisions, job.tables, job.notify, now_ms)
    enforcer = parts.enforcer(job)
    for name in job.options.ladder:
        # With this call, a lever reports before the first decision whether brokers support the lever.
        parts.ports.levers[name].unavailable_reason()
    watch = StreamWatch(follow_writes(parts.tables), parts.skew_ms, enforcer.alert)
    doing = "carrying out" if job.apply else "(dry run, without --apply) reporting the effect of"
    print_status(f"{doing} the decisions in {job.tables}, on {_servers(job)}; Ctrl-C ends it")
    poll_seconds = job.poll_seconds or parts.tables.watch_seconds
    Loop(enforcer, watch, metrics, parts.clocks, job.notify, poll_seconds).run(stop)


def release_now(stop: threading.Event, stack: ExitStack, job: EnforceJob, principal: str | None, pause_ms: int) -> None:
    """End the throttle of a principal, or of all principals. See `Release.run` for the errors."""
    _bring_up_to_date(job)
    parts = _open(stack, job, _NoDecisions())
    with LeaseTopic(job.kafka.client()) as kept, progress_bar("ending the throttles") as report:
        log = ActionTable(parts.tables)
        release = Release(parts.enforcer(job), parts.ports.levers, kept, log, parts.clocks, job.notify, report)
        release.run(principal, pause_ms, stop)


def _bring_up_to_date(job: EnforceJob) -> None:
    """Create missing tables. Without the table of decisions, create none, because `--tables` may be wrong."""
    try:
        with open_store(job.tables) as store:
            store.ensure_tables(having=DECISIONS)
    except TableVersionError:
        raise
    except TableError as error:
        # Continue, because leases end without tables, too, and the enforcer reads the tables again.
        job.notify(Notice(wall_ms(), "trying again", str(error)))


def _lock(stack: ExitStack, settings: Mapping[str, str]) -> EnforcerLock | EnforcerLockError:
    """Join the enforcers' group. Return an error instead of raising it: the caller first reports missing rights."""
    try:
        lock = EnforcerLock(settings)
    except EnforcerLockError as error:
        return error
    stack.callback(lock.close)
    return lock


def _open(stack: ExitStack, job: EnforceJob, decisions: DecisionSource | None = None) -> _Parts:
    print_status(f"asking the brokers at {_servers(job)}")
    time_ = BrokersTime(wall_ms, steady_ms)
    settings, client = job.kafka.client(), job.kafka.kafka_python()
    holds, quotas = stack.enter_context(HoldBindings(client)), stack.enter_context(ClientQuotas(client))

    def with_holds() -> bool:
        return "hold" in job.options.ladder and {*holds.authorizers().values()} == {HOLD_AUTHORIZER}

    tables = stack.enter_context(open_store(job.tables))
    clock = BrokerClock(settings, time_) if job.apply else None
    lock = _lock(stack, settings) if job.apply else None
    require_rights(settings, with_holds=with_holds, apply=job.apply, timeout_s=RIGHTS_TIMEOUT_S)
    if isinstance(lock, EnforcerLockError):
        raise lock
    if clock is not None:
        stack.enter_context(clock)
        clock.wait()
    clocks = Clocks(time_.now_ms if clock is None else clock.now_ms, steady_ms)
    found = levers(
        quotas if job.apply else DryRunQuotas(quotas),
        holds if job.apply else DryRunHolds(holds),
        holds.authorizers,
        stack.enter_context(EventAddresses(settings, lambda: time_.now_ms() / 1000)),
        quotas.own_addresses,
        clocks,
        job.notify,
    )
    source = decisions or DecisionTable(tables)
    if lock is not None:
        leases = stack.enter_context(LeaseTopic(settings))
        ports = EnforcerPorts(source, ActionTable(tables), leases, found, lock)
    else:
        # A dry run writes no record, not even the probe record that measures the brokers' clock.
        others = partial(leases_of_others, partial(kept_leases, settings), ActionTable(tables).read)
        ports = EnforcerPorts(source, DiscardedRecords(), DiscardedRecords(), found, NoLock(), others)
    return _Parts(ports, clocks, tables, time_.skew_ms, holds, quotas)


def _servers(job: EnforceJob) -> str:
    return job.kafka.client()["bootstrap.servers"]


class _NoDecisions:
    bad_rows = 0

    def newest(self, _now_ms: int, *, again: bool = False, only_new: bool = False) -> list[ThrottleDecision]:
        del again, only_new
        return []

    def has_news(self) -> bool:
        return False
