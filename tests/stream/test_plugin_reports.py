"""From a plugin in a real broker to the tables of the reports."""

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
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import (
    new_topic,
    produce,
    produce_in_transactions,
    reports_of,
    transactional_producer,
    wait_until,
)
from tests.kits.stream_kit import admitted_by_principal
from wire.plugin_reports import AliveReport, BlockReport, InitReport
from wire.topics import PRODUCE_EVENTS


def rows(options: StreamOptions, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(f"{options.tables}/{table}").to_pyarrow_table().to_pylist()
    return found


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

        options = StreamOptions(
            topic=PRODUCE_EVENTS,
            kafka_options={"kafka.bootstrap.servers": broker.admin_servers},
            tables=str(tmp_path / "tables"),
            checkpoint=str(tmp_path / "checkpoint"),
            trigger=AVAILABLE_NOW,
        )
        create_missing(options.tables)
        cluster_id = str(admin_client(broker.admin_config()).metadata().cluster_id)
        for query in (start(spark, options), start_reports(spark, options, cluster_id)):
            query.awaitTermination()

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
