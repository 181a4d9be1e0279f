import json
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from streaming.commit.sinks import DeltaSink
from streaming.pipeline import StreamOptions, start
from streaming.reports.report_queries import REPORTS, CommitReport, start_reports
from streaming.triggers import AVAILABLE_NOW
from tables.query.sql_query import query
from tables.schema.ddl import row_schema
from tables.store.path_tables import create_missing
from tests.kits.broker_kit import (
    broker_tap,
    new_topic,
    produce,
    produce_in_transactions,
    running,
    transactional_producer,
    wait_until,
    wait_until_idle,
)
from tests.kits.stream_kit import START_MS
from wire.topics import PRODUCER_INITS

INITS, BLOCKS = REPORTS["producer-inits"], REPORTS["producer-id-blocks"]


def records(spark: SparkSession, *values: object) -> DataFrame:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return spark.createDataFrame([(bytearray(text),) for text in texts], "value BINARY")


def init(at_ms: int = 0, **others: object) -> dict[str, object]:
    return {
        "timestamp_ms": START_MS + at_ms,
        "broker_id": 1,
        "principal": "User:alice",
        "client_id": "app",
        "client_host": "10.0.0.7",
        "transactional_id": None,
        "producer_id": -1,
        "producer_epoch": -1,
        "result_producer_id": 70,
        "result_producer_epoch": 0,
        "error": "NONE",
        **others,
    }


def block(at_ms: int = 0, **others: object) -> dict[str, object]:
    return {
        "timestamp_ms": START_MS + at_ms,
        "broker_id": 2,
        "broker_epoch": 17,
        "first_producer_id": 4000,
        "length": 1000,
        **others,
    }


def test_an_answer_for_a_producer_id_becomes_a_row(spark: SparkSession) -> None:
    rows = INITS.rows(records(spark, init(), init(5, repeated=True, transactional_id="pay")))

    assert rows.schema.names == row_schema("producer_inits").names[:-1]
    first, second = sorted(rows.to_pylist(), key=lambda row: row["answered_at"])
    answered_at = datetime.fromtimestamp(START_MS / 1000, tz=timezone.utc)
    assert first["answered_at"] == answered_at
    assert (first["principal"], first["client_host"], first["transactional_id"]) == ("User:alice", "10.0.0.7", None)
    assert (first["result_producer_id"], first["repeated"]) == (70, False)
    assert (second["transactional_id"], second["repeated"]) == ("pay", True)


def test_long_texts_of_clients_are_cut(spark: SparkSession) -> None:
    (row,) = INITS.rows(records(spark, init(client_id="x" * 9000, transactional_id="y" * 9000))).to_pylist()
    assert (row["client_id"], row["transactional_id"]) == ("x" * 256, "y" * 256)


def test_a_block_of_producer_ids_becomes_a_row(spark: SparkSession) -> None:
    # As taps of earlier versions wrote them: an answer, and an error.
    older = {"error": 0, "throttle_time_ms": 0}, {"error": 77, "first_producer_id": -1, "length": 0}
    values = [block(), block(1, first_producer_id=5000, broker_epoch=None, **older[0]), block(2, **older[1])]
    rows = BLOCKS.rows(records(spark, *values))

    assert rows.schema.names == row_schema("pid_blocks").names[:-1]
    found = sorted(rows.to_pylist(), key=lambda row: row["allocated_at"])
    assert [(row["first_producer_id"], row["length"], row["broker_epoch"]) for row in found] == [
        (4000, 1000, 17),
        (5000, 1000, -1),
    ]


def test_invalid_reports_are_skipped(spark: SparkSession) -> None:
    values = ["text", {"principal": "User:a"}, [1], b"\xff{", b"", {"timestamp_ms": 1, "broker_id": "x"}]
    assert INITS.rows(records(spark, *values, init())).num_rows == 1
    assert BLOCKS.rows(records(spark, *values, block())).num_rows == 1


def test_a_batch_that_is_run_again_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    (tmp_path / "metadata").write_text('{"id": "query"}')
    (tmp_path / "offsets").mkdir()
    for batch_id in range(2):
        (tmp_path / "offsets" / str(batch_id)).write_text('v1\n{}\n{"t":{"0":5}}')
    for report, value in ((INITS, init()), (BLOCKS, block())):
        commit = CommitReport(report, partial(DeltaSink, str(tmp_path)), "test", str(tmp_path))
        for batch_id in (0, 0, 1):
            commit(records(spark, value), batch_id)
        commit(records(spark, "nothing of ours"), 2)

        rows = DeltaTable(f"{tmp_path}/{report.table}").to_pyarrow_table().to_pylist()
        assert sorted(row["batch_id"] for row in rows) == [0, 1]


def test_epochs_are_no_producer_ids_from_the_tap_to_the_tables(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    events, orders = new_topic(broker, "events"), new_topic(broker, "orders")
    name = f"pay-{orders}"
    ensure_topics(broker.admin_config())
    with running(broker_tap(broker, topic=events, from_end=True)) as tap:
        wait_until(lambda: tap.idle_rounds > 0, "the tap follows the log")
        for _ in range(5):
            # Each is another instance of the same producer: same id, next epoch.
            produce_in_transactions(transactional_producer(broker.client_config("alice"), name), orders, 3)
        for _ in range(4):
            produce(broker.client_config("mallory"), orders)
        wait_until_idle(tap)

    tables = str(tmp_path / "tables")
    create_missing(tables)
    options = StreamOptions(
        topic=events,
        kafka_options={"kafka.bootstrap.servers": broker.admin_servers},
        tables=tables,
        checkpoint=str(tmp_path / "checkpoint"),
        trigger=AVAILABLE_NOW,
    )
    for stream in (start(spark, options), *start_reports(spark, options, {PRODUCER_INITS})):
        stream.awaitTermination()

    # Summed: the clock may have passed into another interval meanwhile.
    admitted = query(
        tables,
        "SELECT principal, CAST(sum(admitted_pids) AS BIGINT) AS pids FROM principal_metrics GROUP BY ALL ORDER BY ALL",
        datetime.now(timezone.utc),
    )
    assert admitted.rows == (("User:alice", 1), ("User:mallory", 4))
    inits = DeltaTable(f"{tables}/producer_inits").to_pyarrow_table().to_pylist()
    epochs = [
        row["result_producer_epoch"] for row in inits if row["transactional_id"] == name and row["error"] == "NONE"
    ]
    assert sorted(epochs)[:1] == [0]
    assert len(set(epochs)) == 5
