"""`pid-quota stream`, also `python -m jobs.stream`: the Structured Streaming job."""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cluster.kafka_config import KafkaConfig
from broker.cluster.offsets import ExtentReader, first_record_ms
from broker.cluster.topics import require_topic
from broker.errors import TopicMissingError
from broker.jars.java import find_java
from jobs.metrics_server import LOOPBACK, MetricsHost, MetricsPort, serving
from jobs.progress import say
from jobs.stream.stream_tables import make_relations, note_tables, prepare_path_tables
from jobs.terminal import debug_wanted
from quota.config import QuotaConfig
from state.events import Scope
from streaming.databricks import in_databricks, jaas_prefix, secret_lines
from streaming.errors import SparkMissingError
from streaming.triggers import AVAILABLE_NOW, LEAST_RECORDS, MOST_RECORDS, RECORDS_PER_SECOND
from tables.delta import SinkName, is_catalog
from wire.topics import PRODUCE_EVENTS, PRODUCER_ID_BLOCKS, PRODUCER_INITS, TAP_STATUS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.stream.stream_metrics import StreamMetrics
    from streaming.pipeline import StreamOptions

BootstrapServers = Annotated[str, typer.Option(help="Brokers, as host:port,host:port.")]
Tables = Annotated[str, typer.Option(envvar="PID_QUOTA_TABLES", help="Folder of Delta tables, or catalog.schema.")]
Checkpoint = Annotated[str, typer.Option(help="Folder of the checkpoint: one per stream, kept over restarts.")]
KafkaConfigFile = Annotated[Path | None, typer.Option(help="Client settings, as name=value lines (librdkafka names).")]
KafkaSecret = Annotated[
    str | None, typer.Option(metavar="SCOPE/KEY", help="The same lines, out of a Databricks secret.")
]
LearnSeconds = Annotated[
    int | None, typer.Option(min=0, help="At the first start: charge no PID for so long. [default: the window]")
]
NewCheckpoint = Annotated[
    bool,
    typer.Option(
        "--new-checkpoint/--no-new-checkpoint",
        help="Go on where the rows of an earlier stream end, with a new checkpoint.",
        show_default=False,
    ),
]
NewTables = Annotated[
    bool, typer.Option("--new-tables", help="Go on although tables of this checkpoint are gone: without their quotas.")
]
MaxPrincipals = Annotated[
    int, typer.Option(min=1, help="Track so many one by one; others are reported together, never throttled.")
]
MaxUnchargedBytes = Annotated[
    int,
    typer.Option(min=1024, help="Filter of a principal's PIDs that take no token; beyond it no throttle."),
]
Master = Annotated[str, typer.Option(help="Spark master, such as spark://host:7077.")]
PyFiles = Annotated[str, typer.Option(help="Wheel of pid-quota, where the master's workers do not have it installed.")]

Sink = Annotated[
    SinkName | None,
    typer.Option(help="What writes the tables. [default: deltalake in a local folder, else delta-spark]"),
]

MetricsTop = Annotated[
    int, typer.Option(min=1, help="Principals with metrics of their own; all others are summed as 'other'.")
]

StateBuckets = Annotated[
    int | None,
    typer.Option(
        min=0,
        show_default="64 in a new checkpoint",
        help="Keep all principals in so many states; 0: a state each. For good, per checkpoint.",
    ),
]
MaxOffsets = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default=f"{RECORDS_PER_SECOND} per second of the trigger, {LEAST_RECORDS} to {MOST_RECORDS}",
        help="Most records of a micro-batch.",
    ),
]


def stream(
    bootstrap_servers: BootstrapServers,
    tables: Tables,
    checkpoint: Checkpoint,
    topic: Annotated[str, typer.Option(help="Topic of produce events.")] = PRODUCE_EVENTS,
    trigger: Annotated[str, typer.Option(help="Interval of micro-batches, or available-now.")] = "5 seconds",
    kafka_config: KafkaConfigFile = None,
    kafka_secret: KafkaSecret = None,
    learn_seconds: LearnSeconds = None,
    scope: Annotated[
        Scope, typer.Option(help="One budget per principal, or one per principal and broker.")
    ] = "cluster",
    window_seconds: Annotated[int, typer.Option(help="Time over which a quota counts.")] = 3600,
    layer_count: Annotated[int, typer.Option(help="Layers of the filter per window.")] = 4,
    false_positive_rate: Annotated[float, typer.Option(help="New PIDs taken for known ones.")] = 1e-4,
    burst_windows: Annotated[float, typer.Option(help="Full bucket, in windows of quota.")] = 1.0,
    min_throttle_seconds: Annotated[float, typer.Option(help="Shortest throttle.")] = 60.0,
    metrics_interval_seconds: Annotated[float, typer.Option(help="Metrics row of an active principal.")] = 60.0,
    max_offsets_per_trigger: MaxOffsets = None,
    max_principals: MaxPrincipals = 50_000,
    max_uncharged_bytes: MaxUnchargedBytes = QuotaConfig.max_uncharged_bytes,
    new_checkpoint: NewCheckpoint = False,
    new_tables: NewTables = False,
    master: Master = "local[2]",
    py_files: PyFiles = "",
    sink: Sink = None,
    state_buckets: StateBuckets = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOOPBACK,
    metrics_top: MetricsTop = 100,
) -> None:
    """Run the stream: produce events from Kafka to decisions and metrics in Delta tables."""
    require_spark()
    from streaming.pipeline import StreamOptions

    config = QuotaConfig(
        window_seconds=window_seconds,
        layer_count=layer_count,
        false_positive_rate=false_positive_rate,
        burst_windows=burst_windows,
        min_throttle_seconds=min_throttle_seconds,
        metrics_interval_seconds=metrics_interval_seconds,
        max_uncharged_bytes=max_uncharged_bytes,
    )
    prepare_path_tables(tables, checkpoint, new_tables=new_tables)
    kafka = kafka_settings(bootstrap_servers, kafka_config, kafka_secret)
    require_topic(kafka.client(), topic)
    options = StreamOptions(
        topic=topic,
        kafka_options=kafka.spark_options(jaas_prefix()),
        tables=tables,
        checkpoint=checkpoint,
        trigger=trigger,
        learn_until_ms=_learn_until_ms(
            kafka, topic, window_seconds if learn_seconds is None else learn_seconds, from_now=new_checkpoint
        ),
        max_offsets_per_trigger=max_offsets_per_trigger,
        max_principals=max_principals,
        scope=scope,
        config=config,
        new_checkpoint=new_checkpoint,
        sink=sink,
        state_buckets=state_buckets,
        extent=ExtentReader(kafka.client(), topic),
    )
    reports = [topic for topic in (TAP_STATUS, PRODUCER_INITS, PRODUCER_ID_BLOCKS) if _has_topic(kafka, topic)]
    if trigger != AVAILABLE_NOW:
        say(f"from topic {topic} into the tables in {tables}, a batch every {trigger}; Ctrl-C ends it")
    if metrics_port is None:
        run(options, report_topics=reports, master=master, py_files=py_files, new_tables=new_tables)
        return
    from jobs.stream.stream_metrics import StreamMetrics

    metrics = StreamMetrics(config, top=metrics_top)
    options = replace(options, observer=metrics.observe)
    with serving(metrics, metrics_port, metrics_host):
        run(options, report_topics=reports, master=master, py_files=py_files, metrics=metrics, new_tables=new_tables)


def kafka_settings(bootstrap_servers: str, file: Path | None, secret: str | None) -> KafkaConfig:
    """Return the settings of the Kafka client, out of a file or a secret."""
    if secret is None:
        return KafkaConfig.load(bootstrap_servers, file)
    if file is not None:
        msg = f"--kafka-config {file} and --kafka-secret {secret} say the same thing twice: give one of them"
        raise typer.BadParameter(msg)
    return KafkaConfig.parse(bootstrap_servers, secret_lines(secret), f"secret {secret}")


def _has_topic(kafka: KafkaConfig, topic: str) -> bool:
    try:
        require_topic(kafka.client(), topic)
    except TopicMissingError:
        return False
    return True


def require_spark() -> None:
    """See that Spark can be started, else say in one line what is missing.

    Raises:
        SparkMissingError: If pyspark is not installed.
        JavaError: If there is no Java, or too old a one.
    """
    if importlib.util.find_spec("pyspark") is None:
        msg = "the stream needs Spark, which is not installed: pip install 'pid-quota[local]'"
        raise SparkMissingError(msg)
    if not in_databricks():
        # Without it Spark ends in a stack trace of its own.
        find_java()


def _learn_until_ms(kafka: KafkaConfig, topic: str, learn_seconds: int, *, from_now: bool) -> int:
    """Return the end of the learning time: it begins with the oldest record, or now if there is none.

    A stream that goes on where another ended does not begin with the oldest record either.
    """
    if not learn_seconds:
        return 0
    first_ms = None if from_now else first_record_ms(kafka.client(), topic)
    begin_ms = round(time.time() * 1000) if first_ms is None else first_ms
    return begin_ms + learn_seconds * 1000


def run(
    options: StreamOptions,
    *,
    report_topics: Collection[str] = (),
    master: str = "local[2]",
    py_files: str = "",
    metrics: StreamMetrics | None = None,
    new_tables: bool = False,
) -> None:
    """Run a stream until it ends.

    Args:
        options: Of the stream.
        report_topics: Topics in which taps report more than events: each is written to a table by a query of its own.
        master: Spark master, where a session is started here.
        py_files: Wheel for its workers.
        metrics: Is told how the queries fare, if anybody wants to know.
        new_tables: Whether a stream that has begun may go on with other tables.

    Raises:
        CheckpointError: If the checkpoint can't be used.
        StreamFailedError: If Spark ended it with an error.
    """
    from broker.jars.jar_sets import jars_folder, spark_jars
    from streaming.checkpoint.data_loss import run_through_losses
    from streaming.checkpoint.spark_files import held
    from streaming.failures import as_stream_error, is_of_spark, jvm_may_be_gone
    from streaming.listener import ProgressListener
    from streaming.session import stream_session

    has_jars = in_databricks() or is_catalog(options.tables)
    if not debug_wanted():
        # What it says is a trace of Python for each error of Java; the error comes to us all the same.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    with held(options.checkpoint):
        spark = stream_session([] if has_jars else spark_jars(jars_folder()), master, py_files, debug=debug_wanted())
        listener = None if metrics is None else ProgressListener(metrics.report, metrics.idle)
        if listener is not None:
            spark.streams.addListener(listener)
        try:
            if is_catalog(options.tables):
                make_relations(spark, options, new_tables=new_tables)
            run_through_losses(options.checkpoint, lambda: _run_queries(spark, options, report_topics))
        except Exception as error:
            if is_of_spark(error):
                raise as_stream_error(error, options.checkpoint) from error
            raise
        finally:
            with jvm_may_be_gone():
                if listener is not None:
                    spark.streams.removeListener(listener)
                if not in_databricks():
                    # There it is the cluster's session, and a task that stops it is taken for one that crashed.
                    spark.stop()


def _run_queries(spark: SparkSession, options: StreamOptions, report_topics: Collection[str]) -> None:
    """Run the queries until the first of them fails, or all have read what there is."""
    from streaming.failures import jvm_may_be_gone
    from streaming.pipeline import start
    from streaming.reports.report_queries import start_reports

    queries = [start(spark, options)]
    try:
        note_tables(spark, options)
        queries += start_reports(spark, options, report_topics)
        if options.trigger == AVAILABLE_NOW:
            for query in queries:
                query.awaitTermination()
        else:
            # None of them ends by itself: the first that does has failed.
            spark.streams.awaitAnyTermination()
    finally:
        with jvm_may_be_gone():
            for query in queries:
                query.stop()
            spark.streams.resetTerminated()
