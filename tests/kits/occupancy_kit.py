"""Helpers of the tests on what brokers hold: producers of any age, the brokers' own count, a census."""

import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from broker.kafka.client import RawAdmin
from broker.kafka.config import KafkaConfig
from broker.occupancy.census import TakenCensus, take_census
from jvm.java import find_java
from tables.times import to_ms
from tests.kits.broker_kit import LIMIT_S, wait_until

QUICKLY = 10_000.0
"""Requests a second: nobody else needs this broker."""

_READER = Path(__file__).parents[1] / "broker" / "ReadProducerIdCount.java"


def fill(
    servers: str, topic: str, leaders: Mapping[int, int], producers: Mapping[int, Iterable[tuple[int, int]]]
) -> None:
    """Append a batch of each producer, as clients with clocks of their own would.

    `leaders` is the leader by partition, `producers` the producer ids with the time of their batch, by partition.
    """
    admin = RawAdmin(bootstrap_servers=servers.split(","))
    try:
        for partition, batches in producers.items():
            for pid, timestamp_ms in batches:
                request = _one_batch(topic, partition, pid, timestamp_ms)
                # A leader just elected may not know of it yet.
                is_taken = partial(_is_taken, admin, request, leaders[partition])
                wait_until(is_taken, f"{topic}-{partition} takes a batch of {pid}")
    finally:
        admin.close()


def broker_counts(*process_ids: int | None) -> list[int]:
    """`ProducerIdCount` of brokers, by JMX."""
    assert None not in process_ids
    command = [find_java(), "-XX:TieredStopAtLevel=1", str(_READER), *map(str, process_ids)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    counts = dict(line.split() for line in done.stdout.splitlines())
    return [int(counts[str(process_id)]) for process_id in process_ids]


def census_of(servers: str) -> TakenCensus:
    return take_census(KafkaConfig.load(servers), to_ms(datetime.now(timezone.utc)), QUICKLY)


def _is_taken(admin: RawAdmin, request: ProduceRequest, leader: int) -> bool:
    answer: Any = admin.ask(request, leader)
    return not answer.responses[0].partition_responses[0].error_code


def _one_batch(topic: str, partition: int, pid: int, timestamp_ms: int) -> ProduceRequest:
    batch = DefaultRecordBatchBuilder(2, 0, False, pid, 0, 0, 1000)
    batch.append(0, timestamp_ms, b"", b"value", [])
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=bytes(batch.build()))
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    # From version 13 on topics are named by their ids.
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=topics, max_version=9)
