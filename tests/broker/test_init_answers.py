"""What the plugin reports of a real broker's answers to INIT_PRODUCER_ID, and of the blocks that it hands out."""

import struct
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka.protocol.producer import InitProducerIdRequest

from broker.kafka.client import RawAdmin
from broker.local.local_broker import LocalBroker
from lifecycle.producer_id_blocks import BLOCK_LENGTH, Block
from tables.query.sql_query import query
from tests.kits.broker_kit import (
    frozen,
    new_topic,
    produce,
    reports_of,
    restart,
    stored_batches,
    transactional_producer,
    wait_for_report,
)
from tests.kits.churn_kit import write_inits
from tests.kits.hostile_kit import Hostile
from wire.plugin_reports import BlockReport, InitReport


@pytest.fixture(scope="module")
def own(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own: it is stopped and started."""
    with LocalBroker(tmp_path_factory.mktemp("inits"), jars=jars) as started:
        started.wait_for_plugin()
        # Makes the topic of transactions, and waits until its coordinator is there.
        transactional_producer(started.client_config("alice"), "first")
        yield started


def error_of(own: LocalBroker, client_id: str, transactional_id: str, timeout_ms: int = 60_000, **known: int) -> int:
    """Ask as a client without a password; return the error of the answer."""
    identity = {"producer_id": -1, "producer_epoch": -1} | known
    admin = RawAdmin(bootstrap_servers=own.admin_servers, client_id=client_id)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **identity)
    try:
        answer: Any = admin.ask(request, own.broker_id)
        return int(answer.error_code)
    finally:
        admin.close()


def bump_by_an_error(own: LocalBroker, producer: Producer, topic: str) -> None:
    """A message whose fate is not known makes the client ask for the next epoch when it aborts."""
    errors: list[KafkaError | None] = []
    producer.begin_transaction()
    producer.produce(topic, b"value")
    assert producer.flush(60) == 0
    assert own.pid is not None
    with frozen(own.pid):
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
        producer.flush(60)
    assert errors[0] is not None
    producer.abort_transaction(60)


def test_the_answers_to_real_producers_are_reported_and_classified(own: LocalBroker, tmp_path: Path) -> None:
    settings, orders, mark = own.client_config("alice"), new_topic(own, "orders"), uuid.uuid4().hex[:8]
    produce(settings, orders, client_id=f"plain-{mark}")
    transactional_producer({**settings, "client.id": f"one-{mark}"}, f"pay-{mark}")
    transactional_producer({**settings, "client.id": f"two-{mark}"}, f"pay-{mark}")
    bumped = {**settings, "client.id": f"bumped-{mark}", "message.timeout.ms": "1000"}
    bump_by_an_error(own, transactional_producer(bumped, f"bumped-{mark}"), orders)
    fenced = error_of(own, f"late-{mark}", f"pay-{mark}", producer_id=0, producer_epoch=0)
    refused = error_of(own, f"late-{mark}", f"long-{mark}", timeout_ms=2**31 - 1)
    assert (fenced, refused) == (KafkaError.PRODUCER_FENCED, KafkaError.INVALID_TRANSACTION_TIMEOUT)
    wait_for_report(own, InitReport, lambda report: report.transactional_id == f"long-{mark}")

    write_inits(str(tmp_path), reports_of(own, InitReport))
    select = "SELECT client_id, outcome FROM classified_inits WHERE outcome <> 'busy' ORDER BY answered_at"
    outcomes: dict[str, list[str]] = {}
    for client_id, outcome in query(str(tmp_path), select, datetime.now(timezone.utc)).rows:
        if client_id.endswith(mark):
            outcomes.setdefault(client_id.removesuffix(f"-{mark}"), []).append(outcome)
    assert outcomes == {
        "plain": ["first id"],
        "one": ["first id"],
        "two": ["new instance"],
        "bumped": ["first id", "epoch bump"],
        "late": ["fenced", "refused"],
    }


def overlaps(blocks: Iterable[Block]) -> list[tuple[Block, Block]]:
    return [(lower, upper) for lower, upper in pairwise(sorted(blocks)) if upper.first < lower.end]


def blocks_of(broker: LocalBroker) -> list[Block]:
    """The blocks that the plugin reported, each once."""
    found = {
        Block(each.first_producer_id, each.length, each.broker_id, each.broker_epoch, each.timestamp_ms)
        for each in reports_of(broker, BlockReport)
    }
    return sorted(found)


def blocks_in_the_metadata_log(broker: LocalBroker) -> list[Block]:
    """The blocks of the records on the broker's disk: a record has a version, a code and a version."""
    (folder,) = broker.folder.rglob("__cluster_metadata-0")
    found = []
    for record in (record for batch in stored_batches(folder.glob("*.log")) for record in batch):
        value = bytes(record.value or b"")
        if value.startswith(b"\1\x0f\0"):
            broker_id, epoch, end = struct.unpack_from(">iqq", value, 3)
            found.append(Block(end - BLOCK_LENGTH, BLOCK_LENGTH, broker_id, epoch, record.timestamp))
    return found


def test_the_plugin_reports_the_blocks_of_the_metadata_log(own: LocalBroker) -> None:
    with Hostile(own, "alice") as client:
        # Past the ninth tenth of a block, the broker asks for the next.
        for _ in range(1000):
            newest = client.producer_id()
    wait_for_report(own, BlockReport, lambda report: 0 <= newest - report.first_producer_id < report.length)

    blocks = blocks_of(own)
    assert blocks == blocks_in_the_metadata_log(own)
    assert len(blocks) >= 2
    assert overlaps(blocks) == []


def test_a_restarted_broker_takes_a_new_block_under_a_new_epoch(own: LocalBroker) -> None:
    with Hostile(own, "alice") as client:
        before = client.producer_id()
    restart(own)
    with Hostile(own, "alice") as client:
        after = client.producer_id()
    wait_for_report(own, BlockReport, lambda report: report.first_producer_id == after)

    blocks = blocks_of(own)
    (old,) = [block for block in blocks if before in block]
    (new,) = [block for block in blocks if after in block]
    assert after == new.first >= old.end
    assert new.broker_epoch > old.broker_epoch
    assert overlaps(blocks) == []
    assert blocks == blocks_in_the_metadata_log(own)
