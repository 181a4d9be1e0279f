"""The command `pid-quota enforce`."""

import json
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from broker.enforcement.broker_clock import wall_ms
from broker.enforcement.metrics import EnforcerMetrics
from broker.enforcement.notices import Notice
from broker.enforcement.planner import EnforcerOptions, LeverChoice
from broker.enforcement.webhook import KEY_VARIABLE, URL_VARIABLE, Webhook
from broker.kafka.config import KafkaConfig
from jobs.enforcement.enforcing import EnforceJob, enforce_until, release_now
from jobs.options import (
    LOOPBACK,
    BootstrapServers,
    JsonOption,
    KafkaConfigFile,
    MetricsHost,
    MetricsPort,
    TablesOption,
    full_name,
    one_secret,
)
from jobs.output.terminal import one_line
from jobs.services.metrics_server import serving
from jobs.services.stopping import stopped_by_signals
from tables.query.throttle_causes import looks_like

_HOUR_S, _YEAR_S = 3_600, 31_536_000
"""Upper bounds of options in seconds. Greater values would overflow dates and waiting times."""


def enforce(
    bootstrap_servers: BootstrapServers,
    tables: TablesOption,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Change the brokers, or only report what would change.")
    ] = False,
    lever: Annotated[
        LeverChoice,
        typer.Option(help="The strongest lever to use. auto uses the strongest one that works on this cluster."),
    ] = "auto",
    narrow: Annotated[bool, typer.Option(help="Throttle only the offending client ids if that suffices.")] = True,
    shared_client_id: Annotated[
        list[str] | None, typer.Option(help="Client id that is never throttled on its own. Repeatable.")
    ] = None,
    never: Annotated[
        list[str] | None, typer.Option(help="Principal that is never throttled, such as User:etl. Repeatable.")
    ] = None,
    max_entities: Annotated[int, typer.Option(min=1, help="Maximum number of leases in force at once.")] = 50,
    max_principals: Annotated[int, typer.Option(min=1, help="Maximum number of principals throttled at once.")] = 10,
    hands_off_seconds: Annotated[
        float, typer.Option(min=0, max=_YEAR_S, help="Time to leave a setting alone after somebody else changed it.")
    ] = _HOUR_S,
    poll_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=_HOUR_S,
            help="Maximum pause between reads of the tables.",
            show_default="0.2; 10 in a catalog, where each read is a query",
        ),
    ] = None,
    release_principal: Annotated[
        str | None, typer.Option("--release", metavar="PRINCIPAL", help="End a principal's throttle now, and exit.")
    ] = None,
    release_all: Annotated[bool, typer.Option("--release-all", help="End all throttles now, and exit.")] = False,
    pause_seconds: Annotated[
        float, typer.Option(min=60, max=_YEAR_S, help="Time without new throttles after a release.")
    ] = _HOUR_S,
    kafka_config: KafkaConfigFile = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar=URL_VARIABLE, help="POST each throttle, release and warning to this URL, signed."
        ),
    ] = None,
    webhook_file: Annotated[
        Path | None, typer.Option(help="File whose first line is the webhook's URL. `ps` shows arguments to everybody.")
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOOPBACK,
    as_json: JsonOption = False,
) -> None:
    """Carry out throttle decisions on the brokers, and end throttles in time. Without --apply, only report effects."""
    wants_release = release_all or release_principal is not None
    dry_run = not (apply or wants_release)
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    options = EnforcerOptions(
        lever=lever,
        narrow=narrow,
        never=frozenset([*(never or ()), *filter(None, [kafka.client().get("sasl.username")])]),
        shared_client_ids=frozenset(shared_client_id or ()),
        max_entities=max_entities,
        max_principals=max_principals,
        hands_off_ms=round(hands_off_seconds * 1000),
    )
    stop, metrics = stopped_by_signals(), EnforcerMetrics(wall_ms)
    url = one_secret(webhook, webhook_file, "--webhook")
    with ExitStack() as stack:
        show = _printer(as_json=as_json, dry_run=dry_run)
        listeners = [show, metrics.observe]
        if url is not None:
            listeners.append(stack.enter_context(_webhook(url, tables, show, dry_run=dry_run)).enqueue)

        def notify(notice: Notice) -> None:
            for listener in listeners:
                listener(notice)

        job = EnforceJob(kafka, tables, options, not dry_run, poll_seconds, notify)
        if wants_release:
            name = release_principal and full_name(release_principal)
            release_now(stop, stack, job, name, round(pause_seconds * 1000))
            return
        stack.enter_context(serving(metrics, metrics_port, metrics_host, metrics.unready))
        enforce_until(stop, stack, job, metrics)


def _webhook(url: str, tables: str, show: Callable[[Notice], None], *, dry_run: bool) -> Webhook:
    return Webhook(
        url,
        os.environ.get(KEY_VARIABLE, ""),
        warn=lambda text: show(Notice(wall_ms(), "alert", text)),
        dry_run=dry_run,
        looks_like=lambda principals: looks_like(tables, principals, datetime.now(timezone.utc)),
    )


def _printer(*, as_json: bool, dry_run: bool) -> Callable[[Notice], None]:
    is_closed = threading.Event()

    def notify(notice: Notice) -> None:
        if is_closed.is_set():
            # Continue without output, because the leases still have to end.
            return
        if as_json:
            text = json.dumps(notice.record(dry_run=dry_run), ensure_ascii=False)
        else:
            text = one_line(notice.line(dry_run=dry_run))
        try:
            # Flush each line for readers of a pipe.
            print(text, flush=True)
        except OSError:
            is_closed.set()
            raise

    return notify
