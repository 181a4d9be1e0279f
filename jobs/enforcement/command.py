"""`pid-quota enforce`: turns throttle decisions into Kafka client quotas while they hold."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from broker.cluster.acl_bindings import AclBindings
from broker.cluster.client_quotas import CONNECTION_CREATION_RATE, ClientQuotas
from broker.cluster.former_refusals import FormerRefusals
from broker.cluster.hold_bindings import HOLD, HoldBindings
from broker.cluster.kafka_config import KafkaConfig
from broker.cluster.quota_entity import QuotaEntity
from broker.enforcer.broker_clock import BrokerClock
from broker.enforcer.dry_run import DryRunLog, DryRunQuotas, NoLeases, NoLock, without_lock
from broker.enforcer.enforcer import Enforcer
from broker.enforcer.enforcer_metrics import EnforcerMetrics
from broker.enforcer.first_look import look_at_brokers, look_at_decisions
from broker.enforcer.hold_coverage import HoldCoverage
from broker.enforcer.lease_topic import LeaseTopic
from broker.enforcer.leases_of_others import kept_leases, leases_of_others
from broker.enforcer.levers import Levers
from broker.enforcer.lock import EnforcerLock
from broker.enforcer.notices import Notice
from broker.enforcer.ports import ActionLog, Coverage, DecisionSource, EnforcerPorts, LeaseStore, Lock, QuotaStore
from broker.enforcer.reconciliation import CLOCKS, now_ms, run
from broker.enforcer.release import Orders, release
from broker.enforcer.stream_watch import StreamWatch
from broker.enforcer.webhook import URL_VARIABLE, Webhook
from broker.enforcer_tables.action_rows import DECISIONS
from broker.enforcer_tables.enforcement_tables import EnforcementTables, require_readable
from broker.leases.lease_plan import EnforcerOptions
from broker.leases.lease_targets import Lever, ThrottleDecision
from jobs.enforcement.principal_ips import read_principal_ips
from jobs.kafka_options import BootstrapServers, KafkaConfigFile
from jobs.metrics_server import LOOPBACK, MetricsHost, MetricsPort, serving
from jobs.progress import progress_bar
from jobs.progress import say as tell
from jobs.secrets import one_secret
from jobs.tables.sql_command import TablesOption
from jobs.tables_out import JsonOption
from jobs.terminal import one_line
from tables.delta import create_missing, is_catalog, open_table
from tables.errors import TableError, TableVersionError

_HOUR_S, _YEAR_S = 3_600, 31_536_000
"""Most that an option of seconds may be: some turn into dates, some into waits."""


def enforce(
    bootstrap_servers: BootstrapServers,
    tables: TablesOption,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Change quotas, or only report what would change.")
    ] = False,
    lever: Annotated[
        Lever,
        typer.Option(help="The client quota that throttles; or hold: new producer ids alone wait."),
    ] = "request_percentage",
    request_percentage: Annotated[float, typer.Option(min=1e-6, help="Value of request_percentage.")] = 0.01,
    connection_rate: Annotated[int, typer.Option(min=1, help="Value of connection_creation_rate.")] = 1,
    principal_ips: Annotated[
        Path | None, typer.Option(help="Lines 'principal ip' of all clients, for connection_creation_rate.")
    ] = None,
    narrow: Annotated[bool, typer.Option(help="Throttle only the offending client ids where that suffices.")] = True,
    shared_client_id: Annotated[list[str] | None, typer.Option(help="Client id never throttled on its own.")] = None,
    never: Annotated[list[str] | None, typer.Option(help="Principal never touched, such as User:etl.")] = None,
    max_entities: Annotated[int, typer.Option(min=1, help="Most quotas in force at once.")] = 50,
    max_principals: Annotated[int, typer.Option(min=1, help="Most principals throttled at once.")] = 10,
    max_lease_seconds: Annotated[
        float, typer.Option(min=1, max=_YEAR_S, help="Longest lease without a new decision.")
    ] = 3600,
    hands_off_seconds: Annotated[
        float, typer.Option(min=0, max=_YEAR_S, help="How long to leave a quota alone after somebody else changed it.")
    ] = 3600,
    silence_seconds: Annotated[
        float, typer.Option(min=1, help="Alert if the stream writes nothing for this long.")
    ] = 300,
    poll_seconds: Annotated[
        float, typer.Option(min=0.01, max=_HOUR_S, help="Longest pause between reads of the tables.")
    ] = 0.2,
    release_principal: Annotated[
        str | None, typer.Option("--release", metavar="PRINCIPAL", help="End a principal's throttle now, and exit.")
    ] = None,
    release_all: Annotated[bool, typer.Option("--release-all", help="End all throttles now, and exit.")] = False,
    hold_seconds: Annotated[
        float, typer.Option(min=60, max=_YEAR_S, help="No new throttle for this long after a release.")
    ] = 3600,
    kafka_config: KafkaConfigFile = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar=URL_VARIABLE, help="POST each throttle, release and warning to this URL, signed."
        ),
    ] = None,
    webhook_file: Annotated[
        Path | None, typer.Option(help="File whose first line is that URL: `ps` shows arguments to everybody.")
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOOPBACK,
    as_json: JsonOption = False,
) -> None:
    """Turn throttle decisions into Kafka client quotas, and restore them in time. Without --apply: a dry run."""
    webhook = one_secret(webhook, webhook_file, "--webhook")
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    options = EnforcerOptions(
        lever=lever,
        value=connection_rate if lever == CONNECTION_CREATION_RATE else request_percentage,
        narrow=narrow,
        never=frozenset([*(never or ()), *_own_names(kafka)]),
        shared_client_ids=frozenset(shared_client_id or ()),
        hosts=read_principal_ips(principal_ips) if principal_ips else {},
        max_entities=max_entities,
        max_principals=max_principals,
        max_lease_ms=round(max_lease_seconds * 1000),
        hands_off_ms=round(hands_off_seconds * 1000),
    )
    wants_release = release_all or release_principal is not None
    dry_run = not (apply or wants_release)
    show, metrics = _printer(as_json=as_json, dry_run=dry_run), EnforcerMetrics(now_ms)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        listeners = [show, metrics.observe]
        if webhook is not None:
            hook = Webhook.from_environment(
                webhook, warn=lambda text: show(Notice(now_ms(), "alert", text)), dry_run=dry_run
            )
            listeners.append(stack.enter_context(hook).enqueue)

        def say(notice: Notice) -> None:
            for listener in listeners:
                listener(notice)

        if dry_run:
            require_readable(tables)
        else:
            _bring_up_to_date(tables, say)
        tell(f"asking the brokers at {bootstrap_servers}")
        parts = _Parts.open(stack, kafka, tables, say, apply=apply or wants_release, lever=lever)
        if wants_release:
            principal = _with_type(release_principal)
            hold_ms = round(hold_seconds * 1000)
            enforcer = parts.enforcer(options, say, decisions=_NoDecisions())
            with LeaseTopic(kafka.client()) as kept, progress_bar("ending the throttles") as report:
                orders = Orders(kept, parts.tables.actions())
                release(enforcer, orders, principal, hold_ms, clocks=CLOCKS, notify=say, stop=stop, report=report)
            return
        if dry_run:
            look_at_brokers(kafka.kafka_python(), parts.quotas, options, say, now_ms())
            look_at_decisions(parts.decisions, tables, say, now_ms())
        enforcer = parts.enforcer(options, without_lock(say) if dry_run else say)
        if lever == HOLD:
            # Which brokers know holds is told at once, not with the first decision.
            parts.coverage.trouble()
        watch = StreamWatch(
            parts.tables.newest_write_ms, parts.skew_ms, enforcer.alert, silence_ms=round(silence_seconds * 1000)
        )
        stack.enter_context(serving(metrics, metrics_port, metrics_host, metrics.unready))
        doing = "carrying out" if apply else "without --apply only saying what would come of"
        tell(f"{doing} the decisions in {tables}, on {bootstrap_servers}; Ctrl-C ends it")
        run(enforcer, watch, stop, poll_seconds, say, metrics)


def _bring_up_to_date(tables: str, say: Callable[[Notice], None]) -> None:
    """Upgrade the tables. Missing ones are not created: they may be unreachable for now.

    Raises:
        TableVersionError: If a newer version created them.
    """
    if is_catalog(tables):
        return
    try:
        open_table(tables, DECISIONS)
        create_missing(tables)
    except TableVersionError:
        raise
    except TableError as error:
        # Leases end without tables, and every cycle retries.
        say(Notice(now_ms(), "trying again", str(error)))


class _NoDecisions:
    """No decisions: a release enforces nothing."""

    bad_rows = 0

    def in_force(self, _now_ms: int, *, again: bool = False) -> list[ThrottleDecision]:
        """Return none."""
        del again
        return []

    def has_news(self) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True)
class _Parts:
    """The parts of an enforcer."""

    tables: EnforcementTables
    decisions: DecisionSource
    actions: ActionLog
    quotas: QuotaStore
    leases: LeaseStore
    lock: Lock
    skew_ms: Callable[[], int | None]
    coverage: Coverage
    others: Callable[[], Collection[QuotaEntity] | None] = frozenset

    @classmethod
    def open(
        cls,
        stack: ExitStack,
        kafka: KafkaConfig,
        tables: str,
        say: Callable[[Notice], None],
        *,
        apply: bool,
        lever: Lever,
    ) -> "_Parts":
        client = kafka.kafka_python()
        refusals = FormerRefusals(
            stack.enter_context(AclBindings(client, "a refusal")), lambda text: say(Notice(now_ms(), "alert", text))
        )
        holds = stack.enter_context(HoldBindings(client))
        quotas = Levers(stack.enter_context(ClientQuotas(client)), holds, refusals, with_holds=lever == HOLD)
        coverage = HoldCoverage(holds.authorizers, CLOCKS, say)
        found = EnforcementTables.open(stack, tables)
        decisions = found.decisions()
        settings = kafka.client()
        if not apply:
            # Nothing is written, not even a probe of the broker's clock.
            unwritten = DryRunLog(), DryRunQuotas(quotas), NoLeases(), NoLock()
            others = partial(leases_of_others, partial(kept_leases, settings), found.actions().read)
            return cls(found, decisions, *unwritten, lambda: None, coverage, others)
        lock, clock = EnforcerLock(settings), BrokerClock(settings)
        stack.callback(lock.close)
        stack.callback(clock.close)
        leases = stack.enter_context(LeaseTopic(settings))
        return cls(found, decisions, found.actions(), quotas, leases, lock, clock.skew_ms, coverage)

    def enforcer(
        self, options: EnforcerOptions, say: Callable[[Notice], None], decisions: DecisionSource | None = None
    ) -> Enforcer:
        ports = EnforcerPorts(
            decisions or self.decisions, self.actions, self.leases, self.quotas, self.lock, self.coverage, self.others
        )
        return Enforcer(ports, options, CLOCKS, notify=say, name=f"{socket.gethostname()}/{os.getpid()}")


def _printer(*, as_json: bool, dry_run: bool) -> Callable[[Notice], None]:
    is_closed = threading.Event()

    def say(notice: Notice) -> None:
        if is_closed.is_set():
            # Go on: the quotas still have to be restored.
            return
        if as_json:
            text = json.dumps(notice.record(dry_run=dry_run), ensure_ascii=False)
        else:
            text = one_line(notice.line(dry_run=dry_run))
        try:
            # Flushed: somebody may be watching the pipe.
            print(text, flush=True)
        except OSError:
            is_closed.set()
            raise

    return say


def _own_names(kafka: KafkaConfig) -> list[str]:
    name = kafka.client().get("sasl.username")
    return [name] if name else []


def _with_type(principal: str | None) -> str | None:
    return principal if principal is None or ":" in principal else f"User:{principal}"
