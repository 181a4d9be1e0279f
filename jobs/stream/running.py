"""Prepares and runs the queries of `pid-quota stream`."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from broker.enforcement.model import Limits
from broker.kafka.offsets import events_per_record
from broker.kafka.own_rights import require_rights
from broker.kafka.roles import run_rights
from jobs.output.terminal import debug_wanted
from jobs.services.metrics_server import serving
from jobs.stream.cluster import Cluster, find_cluster, learning_end
from jobs.stream.enforcing import EnforcingThread, HoldNotes
from jobs.stream.narration import LineHandler, Narrator, print_line
from jobs.stream.stream_metrics import StreamMetrics
from jobs.stream.stream_watch import Observer, Watch, reported
from jvm.jar_sets import jars_folder, spark_jars
from jvm.java import quick_options
from streaming.batch.quotas_in_force import TABLE, read_quotas
from streaming.checkpoint.data_loss import restart_after_losses
from streaming.checkpoint.identity import require_same_window, stored_identity
from streaming.checkpoint.next_producer_id import save_next_producer_id
from streaming.checkpoint.spark_files import lock_checkpoint
from streaming.checkpoint.table_ids import require_same, save_table_ids, table_ids
from streaming.databricks import in_databricks
from streaming.failures import apart, as_stream_error, await_batches, is_of_spark, jvm_may_be_gone
from streaming.pipeline import deployment_of, start
from streaming.reports.report_query import start_reports
from streaming.session import DEFAULT_MASTER, stream_session
from streaming.triggers import AVAILABLE_NOW
from tables.store.engines import SparkEngine
from tables.store.open import open_store
from tables.store.values import StreamSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from broker.kafka.config import KafkaConfig
    from jobs.services.listening import Address
    from streaming.pipeline import StreamOptions
    from tables.store.base import TableStore

_FIRST_BATCH_S = 15
_FIRST_BATCH_POLL_S = 1
_POLL_S = 5
_CLOCK_STEP_S = 5.0
"""Minimum backward step of the wall clock that restarts the queries. Smaller steps only delay a batch."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The settings of a stream's process, in addition to `StreamOptions`.

    Attributes:
        new_tables: Whether a stream with a checkpoint may continue with other tables.
        metrics: Where to serve metrics; None to serve none.
        limits: Who may be held.
    """

    new_tables: bool = False
    master: str = DEFAULT_MASTER
    metrics: Address | None = None
    limits: Limits = field(default_factory=Limits)


def run_stream(kafka: KafkaConfig, options: StreamOptions, launch: Launch) -> None:
    """Run a stream until it ends."""
    if identity := stored_identity(options.checkpoint):
        # Spark starts for most of a minute. What it would only find then is refused now.
        require_same_window(identity, options.of_checkpoint)
    store = open_store(options.tables)
    if not store.needs_session:
        prepare_tables(store, options, new_tables=launch.new_tables)
    require_rights(kafka.client(), run_rights(options.topic))
    cluster = find_cluster(kafka, options)
    learn_until_ms = learning_end(kafka, options)
    options = replace(
        options,
        learn_until_ms=learn_until_ms,
        learn_below=cluster.next_producer_id if learn_until_ms else None,
        events_per_record=events_per_record(kafka.client(), options.topic),
    )
    metrics = StreamMetrics(options.config)
    watch = Watch(metrics, Narrator(metrics.totals, window_seconds=options.config.window_seconds))
    watch.narrator.begin(options.topic, options.tables, options.trigger)
    notes = HoldNotes()
    enforcing = EnforcingThread(kafka.client(), launch.limits, options.config.window_ms, notes)
    metrics.holds.standing = enforcing.standing
    options = replace(
        options,
        observer=Observer(watch.observe),
        decided=Observer(enforcing.observe),
        plugin_observer=Observer(metrics.plugins.observe),
        hold_notes=notes,
    )
    with (
        serving(metrics, launch.metrics, metrics.unready, watch.pulse.unwell),
        closing(enforcing),
    ):
        _run(options, launch, cluster, watch, enforcing)


def prepare_tables(store: TableStore, options: StreamOptions, *, new_tables: bool) -> None:
    """Create missing tables and store the stream's settings.

    Unless `new_tables` is true, raise an error if the checkpoint belongs to other tables.
    """
    require_same(store, options.checkpoint, new_tables=new_tables)
    store.create()
    config, servers = options.config, options.kafka_options.get("kafka.bootstrap.servers", "")
    store.write_settings(StreamSettings(config.window_seconds, config.burst_windows, servers))


def open_session(tables: str, launch: Launch) -> SparkSession:
    """Start a stream's Spark session, or return the existing session."""
    has_jars = in_databricks() or open_store(tables).needs_session
    return stream_session(
        [] if has_jars else spark_jars(jars_folder()),
        launch.master,
        debug=debug_wanted(),
        java_options=quick_options(),
    )


def _run(options: StreamOptions, launch: Launch, cluster: Cluster, watch: Watch, enforcing: EnforcingThread) -> None:
    # In Databricks, there are log handlers already, so this call changes nothing.
    logging.basicConfig(level=logging.WARNING, handlers=[LineHandler()])
    if not debug_wanted():
        # py4j logs a stack trace for each Java error, and also raises the error.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    with lock_checkpoint(options.checkpoint):
        spark = open_session(options.tables, launch)
        try:
            with reported(spark, watch) as ask:
                store = open_store(options.tables, SparkEngine(spark))
                if store.needs_session:
                    prepare_tables(store, options, new_tables=launch.new_tables)
                enforcing.restore(watch.restore(store, datetime.now(timezone.utc)))
                watch.narrator.use(read_quotas(spark, options.tables))
                # Known before the first batch, which may find a loss.
                save_next_producer_id(options.checkpoint, cluster.next_producer_id)
                run = partial(_run_queries, spark, options, cluster, watch.narrator, enforcing, ask)
                restart_after_losses(options.checkpoint, lambda: _run_steadily(run))
        except Exception as error:
            if is_of_spark(error):
                raise as_stream_error(error, options.checkpoint) from error
            raise
        finally:
            if not in_databricks():
                # In Databricks, the session belongs to the cluster, and a stop counts as a crash.
                with jvm_may_be_gone():
                    apart(spark.stop)
            await_batches()


def _run_steadily(run: Callable[[], float]) -> None:
    """Run the queries to their end.

    If the wall clock goes back, restart the queries, because Spark's trigger would wait until the clock catches up.
    """
    while back_s := run():
        print_line(
            f"the clock of this host went back by {back_s:.0f} s: the stream continues with the next batch", time.time()
        )


def _run_queries(
    spark: SparkSession,
    options: StreamOptions,
    cluster: Cluster,
    narrator: Narrator,
    enforcing: EnforcingThread,
    ask: Callable[[Iterable[StreamingQuery]], None],
) -> float:
    """Run the queries until a query fails, all records are read, or the wall clock goes back.

    Return the clock's backward step in seconds, or 0.
    """
    queries = [start(spark, options)]
    try:
        ids = table_ids(open_store(options.tables, SparkEngine(spark)))
        save_table_ids(options.checkpoint, ids)
        if identity := stored_identity(options.checkpoint):
            learning = deployment_of(identity, options).learning
            narrator.learns_until(learning.until_ms / 1000, learning.below)
            if options.trigger != AVAILABLE_NOW:
                enforcing.start(identity.stream_id, partial(read_quotas, spark, options.tables, ids[TABLE]))
        if options.trigger != AVAILABLE_NOW:
            _let_begin(queries[0])
        if cluster.has_reports:
            queries.append(start_reports(spark, options, cluster.cluster_id, has_holds=cluster.has_holds))
        if options.trigger == AVAILABLE_NOW:
            for query in queries:
                while not query.awaitTermination(_POLL_S):
                    ask(queries)
            ask(queries)
            return 0.0

        def has_ended() -> bool:
            ask(queries)
            # No query ends by itself, so the first query that ends has failed.
            return bool(spark.streams.awaitAnyTermination(_POLL_S))

        return await_step_back(has_ended)
    finally:
        with jvm_may_be_gone():
            for query in queries:
                apart(query.stop)
            apart(spark.streams.resetTerminated)


def await_step_back(has_ended: Callable[[], bool]) -> float:
    """Wait until the wall clock goes back, and return the step in seconds; 0 if the queries end first."""
    ahead_s = time.time() - time.monotonic()
    while not has_ended():
        before_s, ahead_s = ahead_s, time.time() - time.monotonic()
        if before_s - ahead_s > _CLOCK_STEP_S:
            return before_s - ahead_s
    return 0.0


def _let_begin(stream: StreamingQuery) -> None:
    """Wait a few seconds for the stream's first batch, so that other queries don't slow that batch."""
    give_up_at = time.monotonic() + _FIRST_BATCH_S
    while stream.lastProgress is None and time.monotonic() < give_up_at:
        if stream.awaitTermination(_FIRST_BATCH_POLL_S):
            return
