"""On a cluster with many producer ids: is an old one charged, and how soon is a flood seen after the tap's start?

    .venv/bin/python bench/learning.py                       # 200,000 old ids, the flood a minute after the tap
    .venv/bin/python bench/learning.py --ids 2000 --again 500 --pause 5

Tap and stream are the commands with their default learning time of an hour. Alice's ids were there before; some of them
produce again after the start. Mallory's come later, Eve's after records were lost. The last line is JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Collection
from datetime import datetime, timezone
from itertools import zip_longest
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from pyarrow import compute

from broker.kafka.client import RawAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.topics import DEFAULT_PARTITIONS, ensure_topics
from broker.local.local_broker import LocalBroker
from jobs.demo.processes import Child
from tables.delta import create_missing, table_path
from tables.quotas.quota_table import QuotaEntry, set_quota
from wire.topics import PRODUCE_EVENTS

QUOTA = 50
PARTITIONS = 20
FIRST_OLD, FIRST_NEW = 1_000_000_000, 2_000_000_000
LIMIT_S = 300.0
PASSING = {3, 6}
"""Unknown partition, not its leader: the topic is new to the broker."""
TOPIC = "orders"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=200_000, help="producer ids that are there before")
    parser.add_argument("--again", type=int, default=20_000, help="how many of them produce after the start")
    parser.add_argument("--lose", action="store_true", help="then stop the stream, delete records, and flood again")
    parser.add_argument("--pause", type=float, default=60.0, help="seconds from the tap's start to the flood")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pid-quota-learning-") as folder,
        LocalBroker(Path(folder, "kafka"), users=dict.fromkeys(("alice", "mallory", "eve"), "secret")) as broker,
    ):
        print(json.dumps(vars(asked) | measured(Path(folder), broker, asked)))


def measured(folder: Path, broker: LocalBroker, asked: argparse.Namespace) -> dict[str, object]:
    """Return when the brokers had answered, when the flood was seen, and whether an old id was charged."""
    tables = str(folder / "tables")
    create_missing(tables)
    set_quota(tables, QuotaEntry(None, float(QUOTA), datetime.now(timezone.utc), "bench"))
    ensure_topics(broker.admin_config())
    admin = AdminClient(broker.admin_config())
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    old = range(FIRST_OLD, FIRST_OLD + asked.ids)
    produce(broker, "alice", old, 0)
    tap_arguments = ["-m", "jobs", "tap", "--log-file", str(broker.log_file), "--broker-id", str(broker.broker_id)]
    tap_arguments += ["--bootstrap-servers", broker.admin_servers, "--position-file", str(folder / "position")]
    arguments = ["-m", "jobs.stream", "--bootstrap-servers", broker.admin_servers, "--tables", tables]
    arguments += ["--checkpoint", str(folder / "checkpoint"), "--trigger", "1 second"]
    with Child("tap", [*tap_arguments, "--from-end"], folder / "tap.log") as tap:
        return at_first(folder, tables, broker, asked, tap, arguments) | (
            after_loss(folder, tables, broker, asked, arguments) if asked.lose else {}
        )


def at_first(
    folder: Path, tables: str, broker: LocalBroker, asked: argparse.Namespace, tap: Child, arguments: list[str]
) -> dict[str, object]:
    """When a tap and a stream start for the first time."""
    log, old = folder / "tap.log", range(FIRST_OLD, FIRST_OLD + asked.ids)
    with Child("stream", arguments, folder / "stream.log") as stream:
        began = time.monotonic()
        again = old[:: max(1, asked.ids // asked.again)]
        # Until the tap has begun: the first line that it reads begins its watch.
        while not (folder / "position").exists():
            tap.require_alive()
            time.sleep(0.1)
        asked_at = time.monotonic()
        produce(broker, "alice", again[: len(again) // 2], 1)
        while "were there before" not in log.read_text():
            tap.require_alive()
            time.sleep(0.1)
        answer_s = time.monotonic() - asked_at
        produce(broker, "alice", again[len(again) // 2 :], 1)
        time.sleep(max(0.0, asked.pause - (time.monotonic() - began)))
        produce(broker, "mallory", range(FIRST_NEW, FIRST_NEW + QUOTA + 1), 0)
        over_at = time.monotonic()
        produce(broker, "mallory", range(FIRST_NEW + QUOTA + 1, FIRST_NEW + 5 * QUOTA), 0)
        await_throttle(tables, "User:mallory", stream)
        throttle_s = time.monotonic() - over_at
        # More than a tick, so that alice's last events are in rows, too.
        time.sleep(15)
        return {
            "learned_ids": int(log.read_text().split(" producer ids were")[0].split()[-1].replace(",", "")),
            "answer_s": round(answer_s, 2),
            "first_throttle_s": round(throttle_s, 2),
            "old_that_produced": len(again),
            "old_charged": total(tables, "User:alice", "admitted_pids") + total(tables, "User:alice", "refused_pids"),
            "throttled": throttled(tables),
        }


def after_loss(
    folder: Path, tables: str, broker: LocalBroker, asked: argparse.Namespace, arguments: list[str]
) -> dict[str, object]:
    """When records were lost while the stream was down."""
    charged = {column: total(tables, "User:alice", column) for column in ("admitted_pids", "refused_pids")}
    admin = AdminClient(broker.admin_config())
    # Ids that the stream has not seen.
    forgotten = range(FIRST_OLD, FIRST_OLD + asked.ids)[1 :: max(1, asked.ids // asked.again)]
    produce(broker, "alice", forgotten, 1)
    time.sleep(3)
    ends = admin.list_offsets(
        {TopicPartition(PRODUCE_EVENTS, number): OffsetSpec.latest() for number in range(DEFAULT_PARTITIONS)}
    )
    gone = [TopicPartition(each.topic, each.partition, found.result().offset) for each, found in ends.items()]
    for deleted in admin.delete_records(gone).values():
        deleted.result()
    produce(broker, "alice", forgotten[: len(forgotten) // 2], 2)
    with Child("stream", arguments, folder / "stream-2.log") as stream:
        began = time.monotonic()
        while "a stream learns anew" not in (folder / "tap.log").read_text():
            stream.require_alive()
            time.sleep(0.1)
        answer_s = time.monotonic() - began
        produce(broker, "alice", forgotten[len(forgotten) // 2 :], 2)
        produce(broker, "eve", range(FIRST_NEW + 10 * QUOTA, FIRST_NEW + 11 * QUOTA + 1), 0)
        over_at = time.monotonic()
        produce(broker, "eve", range(FIRST_NEW + 11 * QUOTA + 1, FIRST_NEW + 15 * QUOTA), 0)
        await_throttle(tables, "User:eve", stream)
        throttle_s = time.monotonic() - over_at
        time.sleep(15)
    return {
        "after_loss": {
            "answer_after_start_s": round(answer_s, 2),
            "first_throttle_s": round(throttle_s, 2),
            "old_charged": sum(total(tables, "User:alice", column) - before for column, before in charged.items()),
            "lost": lost_rows(tables),
        }
    }


def lost_rows(tables: str) -> int:
    """Rows about lost records."""
    reasons = DeltaTable(table_path(tables, "quarantined_events")).to_pyarrow_table(columns=["reason"])["reason"]
    return sum(reason.startswith("data loss") for reason in reasons.to_pylist())


def produce(broker: LocalBroker, user: str, ids: Collection[int], sequence: int) -> None:
    """Append a batch of each producer id, a request for all partitions at a time."""
    # A broker takes one batch of a partition in a request.
    queues = [[each for each in ids if each % PARTITIONS == number] for number in range(PARTITIONS)]
    admin = RawAdmin(**KafkaConfig(broker.client_config(user)).kafka_python())
    try:
        for part in zip_longest(*queues):
            data = [
                ProduceRequest.TopicProduceData.PartitionProduceData(
                    index=each % PARTITIONS, records=batch(each, sequence)
                )
                for each in part
                if each is not None
            ]
            topics = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=data)]
            request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=topics, max_version=9)
            refused = refusals(admin, request, broker)
            while refused and PASSING.issuperset(refused):
                time.sleep(0.1)
                refused = refusals(admin, request, broker)
            if refused:
                raise ValueError(refused)
    finally:
        admin.close()


def refusals(admin: RawAdmin, request: ProduceRequest, broker: LocalBroker) -> list[int]:
    """Error codes of the refused partitions."""
    (answer,) = admin.ask(request, broker.broker_id).responses
    return [each.error_code for each in answer.partition_responses if each.error_code]


def batch(producer_id: int, sequence: int) -> bytes:
    """A batch of one record."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer_id, 0, sequence, 1000)
    builder.append(0, time.time_ns() // 1_000_000, b"", b"value", [])
    return bytes(builder.build())


def await_throttle(tables: str, principal: str, stream: Child) -> None:
    """Wait until a reader finds the decision."""
    give_up_at = time.monotonic() + LIMIT_S
    while principal not in throttled(tables):
        stream.require_alive()
        if time.monotonic() > give_up_at:
            raise TimeoutError(principal)
        time.sleep(0.05)


def throttled(tables: str) -> list[str]:
    """Principals with a decision."""
    found = DeltaTable(table_path(tables, "throttle_decisions")).to_pyarrow_table(columns=["principal"])
    return sorted(set(found["principal"].to_pylist()))


def total(tables: str, principal: str, column: str) -> int:
    """Sum of a column over the rows of a principal."""
    found = DeltaTable(table_path(tables, "producer_id_metrics")).to_pyarrow_table(columns=["principal", column])
    return compute.sum(found.filter(compute.equal(found["principal"], principal))[column]).as_py() or 0


if __name__ == "__main__":
    main()
