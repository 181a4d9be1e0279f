"""From a plugin in a real broker to the tables of the reports and of the holds."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from broker.kafka.topics import admin_client
from broker.local.local_broker import LocalBroker
from streaming.checkpoint.next_producer_id import load_next_producer_id
from streaming.pipeline import StreamOptions, start
from streaming.reports.report_query import start_reports
from streaming.triggers import AVAILABLE_NOW
from tables.query.sql_query import query
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import (
    new_topic,
    produce,
    produce_in_transactions,
    reports_of,
    transactional_producer,
    wait_until,
)
from tests.kits.hold_kit import LOADING, MALLORY, Asker, HoldWriter
from tests.kits.stream_kit import admitted_by_principal
from wire.plugin_reports import AliveReport, BlockReport, InitReport
from wire.topics import PRODUCE_EVENTS


def rows(options: StreamOptions, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(f"{options.tables}/{table}").to_pyarrow_table().to_pylist()
    return found


def options_of(broker: LocalBroker, folder: Path) -> StreamOptions:
    return StreamOptions(
        topic=PRODUCE_EVENTS,
        kafka_options={"kafka.bootstrap.servers": broker.admin_servers},
        tables=str(folder / "tables"),
        checkpoint=str(folder / "checkpoint"),
        trigger=AVAILABLE_NOW,
    )


def cluster_id_of(broker: LocalBroker) -> str:
    return str(admin_client(broker.admin_config()).metadata().cluster_id)


def test_epochs_are_no_producer_ids_from_the_plugin_to_the_tables(
    spark: SparkSession, jars: Path, tmp_path: Path
) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        broker.wait_for_plugin()
        orders = new_topic(broker, "orders")
        for _ in range(5):
            # Each is another instance of the same producer: same id, next epoch.
            produce_in_transactions(transactional_producer(broker.client_config("alice"), "pay"), orders, 3)
        for _ in range(4):
            produce(broker.client_config("mallory"), orders)
        wait_until(lambda: len(reports_of(broker, InitReport)) >= 9, "all answers are reported")
        # The plugin delivers an event within 50 ms, and says every 10 s how many it has delivered.
        wait_until(lambda: any(each.events >= 5 for each in reports_of(broker, AliveReport)), "all events")
        blocks = {block.first_producer_id for block in reports_of(broker, BlockReport)}

        options = options_of(broker, tmp_path)
        create_missing(options.tables)
        for running in (start(spark, options), start_reports(spark, options, cluster_id_of(broker))):
            running.awaitTermination()

    assert admitted_by_principal(options.tables) == {"User:alice": 1, "User:mallory": 4}
    inits = [row for row in rows(options, "producer_inits") if row["transactional_id"] == "pay"]
    epochs = [row["result_producer_epoch"] for row in inits if row["error"] == "NONE"]
    assert (min(epochs), len(set(epochs))) == (0, 5)
    (status,) = rows(options, "broker_status")
    assert (status["broker_id"], status["problem"], status["stopped"]) == (broker.broker_id, None, False)
    next_producer_id = load_next_producer_id(options.checkpoint)
    assert next_producer_id == status["next_producer_id"]
    assert next_producer_id is not None
    assert next_producer_id >= 5
    assert blocks
    assert {row["first_producer_id"] for row in rows(options, "pid_blocks")} == blocks


def test_a_hold_is_told_from_its_record_and_its_broker_to_the_views(
    spark: SparkSession, jars: Path, tmp_path: Path
) -> None:
    def holds_now() -> list[dict[str, Any]]:
        start_reports(spark, options, cluster_id_of(broker)).awaitTermination()
        return query(options.tables, "TABLE holds_now", datetime.now(timezone.utc)).records()

    with LocalBroker(tmp_path / "kafka", jars=jars, holds=True) as broker, HoldWriter(broker) as writer:
        options = options_of(broker, tmp_path)
        create_missing(options.tables)
        broker.wait_for_plugin()
        # A plugin says every 10 s that it is alive.
        wait_until(lambda: bool(reports_of(broker, AliveReport)), "the broker is live")
        writer.wait_for(writer.hold(300, reason="a test holds it"))
        with Asker(broker) as asker:
            assert asker.error() == LOADING
        (held,) = holds_now()
        offset = writer.remove()
        writer.wait_for(offset)
        assert holds_now() == []

    assert (held["principal"], held["hold"], held["writer"]) == (MALLORY, "held", "a test")
    assert (held["confirmed_brokers"], held["live_brokers"]) == (1, 1)
    states = {(row["state"], row["broker_id"], row["reason"]) for row in rows(options, "holds")}
    assert states == {
        ("written", None, "a test holds it"),
        ("in_force", broker.broker_id, None),
        ("ended", broker.broker_id, "removed"),
        ("removed", None, None),
    }
