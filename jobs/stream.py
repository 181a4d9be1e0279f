"""`pid-quota stream`, also `python -m jobs.stream`: the Structured Streaming job."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.errors import TopicMissingError
from broker.java import find_java
from broker.kafka_config import KafkaConfig
from broker.offsets import first_record_ms
from broker.topics import PRODUCE_EVENTS, TAP_STATUS, require_topic
from quota.config import QuotaConfig
from state.events import Scope
from streaming.errors import SparkMissingError, StreamFailedError
from streaming.tables import create_missing, is_catalog

if TYPE_CHECKING:
    from streaming.pipeline import StreamOptions

BootstrapServers = Annotated[str, typer.Option(help="Brokers, as host:port,host:port.")]
Tables = Annotated[str, typer.Option(envvar="PID_QUOTA_TABLES", help="Folder of Delta tables, or catalog.schema.")]
Checkpoint = Annotated[str, typer.Option(help="Folder of the checkpoint: one per stream, kept over restarts.")]
KafkaConfigFile = Annotated[Path | None, typer.Option(help="Client settings, as name=value lines (librdkafka names).")]
LearnSeconds = Annotated[
    int | None, typer.Option(min=0, help="At the first start: charge no PID for so long. [default: the window]")
]


def stream(
    bootstrap_servers: BootstrapServers,
    tables: Tables,
    checkpoint: Checkpoint,
    topic: Annotated[str, typer.Option(help="Topic of produce events.")] = PRODUCE_EVENTS,
    trigger: Annotated[str, typer.Option(help="Interval of micro-batches, or available-now.")] = "5 seconds",
    kafka_config: KafkaConfigFile = None,
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
    max_offsets_per_trigger: Annotated[int, typer.Option(min=1, help="Most records of a micro-batch.")] = 500_000,
) -> None:
    """Run the stream: produce events from Kafka to decisions and metrics in Delta tables."""
    _require_spark()
    from streaming.pipeline import StreamOptions

    config = QuotaConfig(
        window_seconds=window_seconds,
        layer_count=layer_count,
        false_positive_rate=false_positive_rate,
        burst_windows=burst_windows,
        min_throttle_seconds=min_throttle_seconds,
        metrics_interval_seconds=metrics_interval_seconds,
    )
    if not is_catalog(tables):
        create_missing(tables)
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    require_topic(kafka.client(), topic)
    options = StreamOptions(
        topic=topic,
        kafka_options=kafka.spark_options(),
        tables=tables,
        checkpoint=checkpoint,
        trigger=trigger,
        learn_until_ms=_learn_until_ms(kafka, topic, window_seconds if learn_seconds is None else learn_seconds),
        max_offsets_per_trigger=max_offsets_per_trigger,
        scope=scope,
        config=config,
    )
    run(options, with_tap_reports=_has_topic(kafka, TAP_STATUS))


def _has_topic(kafka: KafkaConfig, topic: str) -> bool:
    try:
        require_topic(kafka.client(), topic)
    except TopicMissingError:
        return False
    return True


def _require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        msg = "the stream needs Spark, which is not installed: pip install 'pid-quota[local]'"
        raise SparkMissingError(msg)
    # Without it Spark ends in a stack trace of its own.
    find_java()


def _learn_until_ms(kafka: KafkaConfig, topic: str, learn_seconds: int) -> int:
    """Return the end of the learning time: it begins with the oldest record, or now if there is none."""
    if not learn_seconds:
        return 0
    first_ms = first_record_ms(kafka.client(), topic)
    begin_ms = round(time.time() * 1000) if first_ms is None else first_ms
    return begin_ms + learn_seconds * 1000


def run(options: StreamOptions, *, with_tap_reports: bool = False) -> None:
    """Run a stream until it ends.

    Args:
        options: Of the stream.
        with_tap_reports: Whether the taps' own reports are written to tables beside it, by a second query.

    Raises:
        StreamFailedError: If Spark ended it with an error.
    """
    from pyspark.errors import PySparkException

    from broker.jars import jars_folder, spark_jars
    from streaming.pipeline import AVAILABLE_NOW, start
    from streaming.session import stream_session
    from streaming.tap_reports import start_tap_reports

    spark = stream_session([] if is_catalog(options.tables) else spark_jars(jars_folder()))
    queries = [start(spark, options)]
    try:
        if with_tap_reports:
            queries.append(start_tap_reports(spark, options))
        if options.trigger == AVAILABLE_NOW:
            for query in queries:
                query.awaitTermination()
        else:
            # None of them ends by itself: the first that does has failed.
            spark.streams.awaitAnyTermination()
    except PySparkException as error:
        msg = f"the stream ended with an error: {str(error).splitlines()[0]}; fix its cause and start it again"
        raise StreamFailedError(msg) from error
    finally:
        spark.stop()


if __name__ == "__main__":
    from jobs.cli import run_command

    run_command(stream)
