"""The stream as a task of a Databricks job runs it, with quotas set in SQL after its first start: program of the tests.

Its last batch is repeated, as after a crash between the last table and Spark's own commit.

Started with brokers, topic, checkpoint, and a file of the statements. Its last line is JSON: what the tables then say.
"""

import faulthandler
import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyspark
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from jobs.cli import run
from jobs.stream import command

TABLES = "spark_catalog.default"
FLOOD = 30
STARTS = 4
HANGS_S = 1500
"""Seconds after which the program prints where each thread is, and ends. Its caller waits for 1,800."""


def events() -> Iterator[tuple[str, str]]:
    """Return a flood of new PIDs by mallory, steady events by alice, and an invalid record."""
    now_ms = time.time_ns() // 1_000_000
    flood = [("User:mallory", 1000 + number) for number in range(FLOOD)]
    for principal, pid in [*flood, *[("User:alice", 7)] * 20]:
        event = {"timestamp_ms": now_ms, "principal": principal, "after_ms": [0], "producer_ids": [pid]}
        yield principal, json.dumps(event)
    yield "User:bob", "no event"


def task(arguments: list[str]) -> int:
    """Run a command and start it again when it fails, as the job does with its task.

    Over Connect it does, on a machine that is busy: Spark waits 10 s for a Python worker, and no setting changes that.
    """
    codes = (run(arguments) for _ in range(STARTS))
    return next((code for code in codes if code == 0), 1)


def main(servers: str, topic: str, checkpoint: str, statements: str) -> None:
    patch.object(command, "PRODUCE_EVENTS", topic).start()
    stream = ["stream", "--bootstrap-server", servers, "--command-config", "secret:pid-quota/kafka-client"]
    stream += ["--tables", TABLES, "--checkpoint", checkpoint, "--trigger", "available-now"]
    # The first start makes tables and views.
    codes = [task(stream)]
    spark = SparkSession.builder.getOrCreate()
    spark.sql(f"USE {TABLES}")
    for statement in filter(str.strip, Path(statements).read_text(encoding="utf-8").split(";")):
        spark.sql(statement)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for key, value in events():
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0
    codes.append(task(stream))
    # Spark does not know any more that the last batch was written: it is repeated.
    commits = Path(checkpoint, "commits")
    newest = max((file for file in commits.iterdir() if file.name.isdecimal()), key=lambda file: int(file.name))
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink(missing_ok=True)
    codes.append(task(stream))
    assert newest.exists()
    if importlib.util.find_spec("sqlglot"):
        # Not with the wheel alone: of the extra `databricks`.
        codes.append(run(["sql", "--tables", TABLES, "SELECT * FROM current_throttles"]))

    def rows(select: str) -> list[list[object]]:
        return [list(row) for row in spark.sql(select).collect()]

    provider = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    assert provider is not None
    said = {
        "spark": pyspark.__version__,
        "session": type(spark).__module__,
        "codes": codes,
        "provider": provider.rpartition(".")[2],
        "decisions": rows("SELECT principal, action, quota, quota_source FROM throttle_decisions"),
        "metrics": rows(
            "SELECT principal, max(admitted_pids), max(refused_pids) FROM producer_id_metrics GROUP BY ALL ORDER BY ALL"
        ),
        "quarantined": rows("SELECT reason FROM quarantined_events"),
        "throttled": rows("SELECT principal FROM current_throttles WHERE throttled_now"),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    main(*sys.argv[1:])
