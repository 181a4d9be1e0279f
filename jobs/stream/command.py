"""The command `pid-quota stream`, also `python -m jobs.stream`."""

import importlib.util
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Annotated

import typer

from broker.enforcement.model import Limits
from broker.kafka.config import KafkaConfig
from broker.kafka.offsets import ExtentReader
from jobs.kafka_login import kafka_login
from jobs.options import ADDRESS, BootstrapServers, KafkaConfigFile, TablesOption, listen_address
from jobs.principals import REPEAT_NEVER, read_user
from jobs.services.stopping import until_interrupted
from jvm.java import find_java
from quota.config import QuotaConfig
from streaming.databricks import in_databricks, jaas_prefix
from streaming.environment import require_own_spark
from streaming.errors import SparkMissingError
from streaming.triggers import AVAILABLE_NOW, EVENTS_PER_SECOND, MAX_EVENTS, MIN_EVENTS
from tables.errors import install_command
from wire.topics import PRODUCE_EVENTS

_ENDS_WITHIN_S = 10.0
"""After a signal, the process ends within this time. Whatever it interrupts is repeated at the next start."""


def stream(
    bootstrap_servers: BootstrapServers,
    tables: TablesOption,
    checkpoint: Annotated[
        str, typer.Option(help="Folder of the checkpoint. Each stream has its own, and keeps it over restarts.")
    ],
    trigger: Annotated[
        str,
        typer.Option(
            help="Interval of micro-batches; asap for no pause between them; available-now to read what exists and end."
        ),
    ] = "5 seconds",
    kafka_config: KafkaConfigFile = None,
    window_seconds: Annotated[int, typer.Option(help="Length of a quota's window in seconds.")] = 3600,
    enforce: Annotated[
        bool,
        typer.Option(
            "--enforce/--no-enforce", help="Hold users over their quota: their new PIDs wait.", show_default=False
        ),
    ] = False,
    never: Annotated[
        list[str] | None, typer.Option(help="User that is never held, such as User:etl. Repeatable.")
    ] = None,
    max_held: Annotated[int, typer.Option(min=1, help="Maximum number of users held at once.")] = 10,
    max_offsets_per_trigger: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=f"{EVENTS_PER_SECOND} events per second of the trigger, {MIN_EVENTS} to {MAX_EVENTS}",
            help="Maximum records per micro-batch.",
        ),
    ] = None,
    max_principals: Annotated[
        int, typer.Option(min=1, help="Principals to track individually. Others share ledgers and are never throttled.")
    ] = 50_000,
    new_checkpoint: Annotated[
        bool,
        typer.Option(
            "--new-checkpoint/--no-new-checkpoint",
            help="Resume where an earlier stream's rows end, with a new checkpoint.",
            show_default=False,
        ),
    ] = False,
    new_tables: Annotated[
        bool,
        typer.Option(
            "--new-tables", help="Continue although the tables of this checkpoint are gone. Their quotas are lost."
        ),
    ] = False,
    master: Annotated[
        str,
        typer.Option(
            help="Spark master, such as spark://host:7077. local[*] uses the cores available to this process."
        ),
    ] = "local[*]",
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar=ADDRESS,
            help="Serve /metrics, /healthz and /readyz there; 0 selects a free port. Metrics name principals.",
        ),
    ] = None,
) -> None:
    """Run the stream: read produce events from Kafka, and write decisions and metrics to Delta tables."""
    require_spark()
    if enforce and trigger == AVAILABLE_NOW:
        msg = f"--enforce holds while the stream runs, and --trigger {AVAILABLE_NOW} ends it: leave out one of them"
        raise typer.BadParameter(msg)
    from jobs.stream.running import Launch, run_stream
    from streaming.pipeline import StreamOptions

    kafka = kafka_login(bootstrap_servers, kafka_config)
    options = StreamOptions(
        topic=PRODUCE_EVENTS,
        kafka_options=kafka.spark_options(jaas_prefix()),
        tables=tables,
        checkpoint=checkpoint,
        trigger=trigger,
        max_offsets_per_trigger=max_offsets_per_trigger,
        max_principals=max_principals,
        config=config_of(window_seconds),
        new_checkpoint=new_checkpoint,
        extent=ExtentReader(kafka.client(), PRODUCE_EVENTS),
    )
    launch = Launch(
        new_tables=new_tables,
        master=master,
        metrics=None if metrics is None else listen_address(metrics, "--metrics"),
        limits=_limits(kafka, enforce, never or (), max_held),
    )
    # A stream that a signal stops ends without an error. Databricks handles signals itself.
    with nullcontext() if in_databricks() else until_interrupted(_ENDS_WITHIN_S):
        run_stream(kafka, options, launch)


def config_of(window_seconds: int) -> QuotaConfig:
    """Return the rules for a window. A throttle and a metrics row last at most a part of a short window.

    Examples:
        >>> config_of(3600).min_throttle_seconds, config_of(60).min_throttle_seconds
        (60.0, 10.0)
    """
    return QuotaConfig(
        window_seconds=window_seconds,
        min_throttle_seconds=min(60.0, window_seconds / 6),
        metrics_interval_seconds=min(60.0, window_seconds / 60),
    )


def _limits(kafka: KafkaConfig, enforce: bool, never: Iterable[str], max_held: int) -> Limits:
    own_user = kafka.client().get("sasl.username")
    left_out = frozenset(read_user(each, REPEAT_NEVER) for each in never) | (
        {f"User:{own_user}"} if own_user else set()
    )
    return Limits(enforce=enforce, never=left_out, max_held=max_held)


def require_spark() -> None:
    """Raise an error if Spark or Java is missing."""
    if importlib.util.find_spec("pyspark") is None:
        msg = f"the stream needs Spark, which is not installed: {install_command('spark')}"
        raise SparkMissingError(msg)
    if not in_databricks():
        require_own_spark()
        # Check for Java, because Spark would fail with a stack trace.
        find_java()
