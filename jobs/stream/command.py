"""The command `pid-quota stream`, also `python -m jobs.stream`."""

import importlib.util
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from broker.enforcement.model import Limits
from broker.kafka.config import KafkaConfig
from broker.kafka.offsets import ExtentReader
from jobs.options import (
    LOOPBACK,
    BootstrapServers,
    KafkaConfigFile,
    KafkaPasswordFile,
    MetricsHost,
    MetricsPort,
    TablesOption,
    TopicOption,
    one_user,
)
from jobs.services.stopping import until_interrupted
from jvm.java import find_java
from quota.config import QuotaConfig
from streaming.databricks import in_databricks, jaas_prefix, secret_lines
from streaming.errors import SparkMissingError
from streaming.triggers import AVAILABLE_NOW, EVENTS_PER_SECOND, MAX_EVENTS, MIN_EVENTS
from tables.errors import install_command
from tables.schema.specs import SinkName
from wire.topics import PRODUCE_EVENTS


def stream(
    bootstrap_servers: BootstrapServers,
    tables: TablesOption,
    checkpoint: Annotated[
        str, typer.Option(help="Folder of the checkpoint. Each stream has its own, and keeps it over restarts.")
    ],
    topic: TopicOption = PRODUCE_EVENTS,
    trigger: Annotated[
        str,
        typer.Option(
            help="Interval of micro-batches; asap for no pause between them; available-now to read what exists and end."
        ),
    ] = "5 seconds",
    kafka_config: KafkaConfigFile = None,
    kafka_password_file: KafkaPasswordFile = None,
    kafka_secret: Annotated[
        str | None,
        typer.Option(metavar="SCOPE/KEY", help="Client settings from a Databricks secret, instead of --kafka-config."),
    ] = None,
    window_seconds: Annotated[int, typer.Option(help="Length of a quota's window in seconds.")] = 3600,
    window_num: Annotated[int, typer.Option(help="Samples of the rate metric, each one window long.")] = 11,
    layer_count: Annotated[int, typer.Option(help="Layers of the filter per window.")] = 4,
    false_positive_rate: Annotated[
        float, typer.Option(help="Maximum share of new PIDs that are mistaken for known ones.")
    ] = 1e-4,
    burst_windows: Annotated[float, typer.Option(help="Size of a full bucket, in windows of the quota.")] = 1.0,
    min_throttle_seconds: Annotated[float, typer.Option(help="Minimum length of a throttle.")] = 60.0,
    max_throttle_seconds: Annotated[
        float | None,
        typer.Option(
            show_default="the window", help="Maximum length of a throttle: refused PIDs are owed up to this time."
        ),
    ] = None,
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
    metrics_interval_seconds: Annotated[
        float, typer.Option(help="Interval between metrics rows of an active principal.")
    ] = 60.0,
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
    max_uncharged_bytes: Annotated[
        int,
        typer.Option(
            min=1024,
            help="Maximum bytes of a principal's filter with uncharged PIDs. A principal beyond it is not throttled.",
        ),
    ] = QuotaConfig.max_uncharged_bytes,
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
    py_files: Annotated[str, typer.Option(help="Wheel of pid-quota, for workers that do not have it installed.")] = "",
    sink: Annotated[
        SinkName | None,
        typer.Option(help="Writer of the tables. [default: deltalake in a local folder, else delta-spark]"),
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOOPBACK,
    metrics_top: Annotated[
        int, typer.Option(min=1, help="Principals with their own metrics. All others are added up as 'other'.")
    ] = 100,
) -> None:
    """Run the stream: read produce events from Kafka, and write decisions and metrics to Delta tables."""
    require_spark()
    from jobs.stream.running import Launch, run_stream
    from streaming.pipeline import StreamOptions

    config = QuotaConfig(
        window_seconds=window_seconds,
        window_num=window_num,
        layer_count=layer_count,
        false_positive_rate=false_positive_rate,
        burst_windows=burst_windows,
        min_throttle_seconds=min_throttle_seconds,
        max_throttle_seconds=max_throttle_seconds,
        metrics_interval_seconds=metrics_interval_seconds,
        max_uncharged_bytes=max_uncharged_bytes,
    )
    if enforce and trigger == AVAILABLE_NOW:
        msg = f"--enforce holds while the stream runs, and --trigger {AVAILABLE_NOW} ends it: leave out one of them"
        raise typer.BadParameter(msg)
    kafka = kafka_settings(bootstrap_servers, kafka_config, kafka_secret, kafka_password_file)
    own_user = kafka.client().get("sasl.username")
    limits = Limits(
        enforce=enforce,
        never=frozenset(map(one_user, never or ())) | ({f"User:{own_user}"} if own_user else set()),
        max_held=max_held,
    )
    options = StreamOptions(
        topic=topic,
        kafka_options=kafka.spark_options(jaas_prefix()),
        tables=tables,
        checkpoint=checkpoint,
        trigger=trigger,
        max_offsets_per_trigger=max_offsets_per_trigger,
        max_principals=max_principals,
        config=config,
        new_checkpoint=new_checkpoint,
        sink=sink,
        extent=ExtentReader(kafka.client(), topic),
    )
    launch = Launch(
        new_tables=new_tables,
        master=master,
        py_files=py_files,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        metrics_top=metrics_top,
        limits=limits,
    )
    # A stream that a signal stops ends without an error. Databricks handles signals itself.
    with nullcontext() if in_databricks() else until_interrupted():
        run_stream(kafka, options, launch)


def kafka_settings(
    bootstrap_servers: str, file: Path | None, secret: str | None, password_file: Path | None = None
) -> KafkaConfig:
    """Return the Kafka client's settings from files or a Databricks secret."""
    if secret is None:
        return KafkaConfig.load(bootstrap_servers, file, password_file)
    if file is not None:
        msg = f"--kafka-config {file} and --kafka-secret {secret} both set the same value: give one of them"
        raise typer.BadParameter(msg)
    return KafkaConfig.parse(bootstrap_servers, secret_lines(secret), f"secret {secret}")


def require_spark() -> None:
    """Raise an error if Spark or Java is missing."""
    if importlib.util.find_spec("pyspark") is None:
        msg = f"the stream needs Spark, which is not installed: {install_command('spark')}"
        raise SparkMissingError(msg)
    if not in_databricks():
        # Check for Java, because Spark would fail with a stack trace.
        find_java()
