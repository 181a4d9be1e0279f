"""Compares a real broker's answers to INIT_PRODUCER_ID, and the plugin's reports, with the pure decision function."""

import struct
import uuid
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError, Producer
from kafka.record.memory_records import MemoryRecords

from broker.local.local_broker import LocalBroker
from lifecycle.producer_id_blocks import BLOCK_LENGTH, Block
from tests.kits.broker_kit import (
    frozen,
    new_topic,
    produce,
    reports_of,
    restart,
    transactional_producer,
    wait_for_report,
)
from tests.kits.init_kit import InitClient
from tests.kits.init_rules_kit import (
    MAX_EPOCH,
    InitDecision,
    InitRequest,
    Outcome,
    TransactionalState,
    classify,
    init_producer_id,
)
from wire.plugin_reports import BlockReport, InitReport

# The model can't know the next id: this one stands for it.
FRESH = -2


@pytest.fixture(scope="module")
def own(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own: it is stopped and started."""
    with LocalBroker(tmp_path_factory.mktemp("inits"), jars=jars) as started:
        started.wait_for_plugin()
        # Makes the topic of transactions, and waits until its coordinator is there.
        transactional_producer(started.client_config("alice"), "first")
        yield started


@pytest.fixture
def client(own: LocalBroker) -> Iterator[InitClient]:
    with InitClient(own.admin_servers) as connected:
        yield connected


class Model:
    """The pure function beside the broker: both get the same requests."""

    def __init__(self, client: InitClient, transactional_id: str) -> None:
        self.client, self.name = client, transactional_id
        self.state: TransactionalState | None = None
        self.pids: set[int] = set()

    def request(self, producer_id: int = -1, producer_epoch: int = -1) -> InitRequest:
        return InitRequest(self.name, producer_id, producer_epoch)

    def ask(self, request: InitRequest) -> InitDecision:
        answer = self.client.ask_until_ready(request)
        is_fresh = answer.error == "NONE" and answer.producer_id not in self.pids
        expected = init_producer_id(request, self.state, answer.producer_id if is_fresh else FRESH)
        told = (answer.error, answer.producer_id, answer.producer_epoch)
        assert told == (expected.error, expected.producer_id, expected.producer_epoch), (request, self.state)
        self.state = expected.state
        self.pids |= {answer.producer_id} if is_fresh else set()
        return answer


def test_a_merely_idempotent_producer_gets_a_new_id_whatever_it_names(client: InitClient) -> None:
    requests = [InitRequest(), InitRequest(), InitRequest(None, 5, 3)]
    answers = [client.ask_until_ready(request) for request in requests]
    assert [(answer.error, answer.producer_epoch) for answer in answers] == [("NONE", 0)] * 3
    assert len({answer.producer_id for answer in answers}) == 3


@pytest.mark.parametrize(
    "request_", [InitRequest("x", 5, -1), InitRequest("x", -1, 5), InitRequest(""), InitRequest(None, 5, -1)]
)
def test_an_invalid_request_is_refused(client: InitClient, request_: InitRequest) -> None:
    assert client.ask(request_).error == init_producer_id(request_, None, FRESH).error == "INVALID_REQUEST"


def test_a_producer_s_life_goes_by_the_table(client: InitClient) -> None:
    model = Model(client, f"life-{uuid.uuid4()}")
    first = model.ask(model.request())
    pid = first.producer_id
    assert model.ask(model.request(pid, 0)).producer_epoch == 1
    # The answer was lost.
    assert model.ask(model.request(pid, 0)).producer_epoch == 1
    assert model.ask(model.request(pid, 1)).producer_epoch == 2
    assert model.ask(model.request(pid, 0)).error == "PRODUCER_FENCED"
    assert model.ask(model.request(pid, 7)).error == "PRODUCER_FENCED"
    assert model.ask(model.request(pid + 1, 2)).error == "PRODUCER_FENCED"
    # Another instance takes over: not even a retry passes.
    assert model.ask(model.request()).producer_epoch == 3
    assert model.ask(model.request(pid, 2)).error == "PRODUCER_FENCED"
    assert model.ask(model.request(pid, 3)).producer_epoch == 4


def test_hundreds_of_requests_at_random_get_the_answers_of_the_model(client: InitClient) -> None:
    rng = np.random.default_rng(360)
    for number in range(6):
        model = Model(client, f"random-{number}-{uuid.uuid4()}")
        if number % 2:
            # As of a producer whose transactional id the broker forgot.
            model.ask(model.request(4, 2))
        for _ in range(60):
            state = model.state
            near = 0 if state is None else state.producer_epoch + int(rng.integers(-3, 2))
            pid = 0 if state is None else state.producer_id
            with_id = model.request(pid + int(rng.random() < 0.1), max(0, near))
            model.ask(with_id if rng.random() < 0.7 else model.request())


@pytest.mark.slow
def test_when_the_epochs_run_out_there_is_a_new_id_and_its_answer_can_be_lost(client: InitClient) -> None:
    model = Model(client, f"exhausted-{uuid.uuid4()}")
    first = model.ask(model.request())
    last, bumps = MAX_EPOCH - 1, 0
    while bumps < last:
        step = min(200, last - bumps)
        for _ in range(step):
            client.send(model.request())
        answers = [client.receive() for _ in range(step)]
        # One that met the write of the one before is asked again.
        bumps = max([bumps, *(answer.producer_epoch for answer in answers)])
    model.state = TransactionalState(first.producer_id, last)

    assert model.ask(model.request(first.producer_id, last - 1)).error == "UNKNOWN_SERVER_ERROR"
    assert model.ask(model.request(first.producer_id, 7)).error == "UNKNOWN_SERVER_ERROR"
    rotated = model.ask(model.request(first.producer_id, last))
    assert (rotated.producer_epoch, rotated.producer_id != first.producer_id) == (0, True)
    assert model.ask(model.request(first.producer_id, last)).producer_id == rotated.producer_id
    assert model.ask(model.request(first.producer_id, last - 1)).error == "PRODUCER_FENCED"
    assert model.ask(model.request(rotated.producer_id, 0)).producer_epoch == 1
    assert model.ask(model.request(first.producer_id, last)).error == "PRODUCER_FENCED"


# What the plugin reports of real producers


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


def test_the_answers_to_real_producers_are_reported_and_classified(own: LocalBroker) -> None:
    settings, orders, mark = own.client_config("alice"), new_topic(own, "orders"), uuid.uuid4().hex[:8]
    produce(settings, orders, client_id=f"plain-{mark}")
    transactional_producer({**settings, "client.id": f"one-{mark}"}, f"pay-{mark}")
    transactional_producer({**settings, "client.id": f"two-{mark}"}, f"pay-{mark}")
    bumped = {**settings, "client.id": f"bumped-{mark}", "message.timeout.ms": "1000"}
    bump_by_an_error(own, transactional_producer(bumped, f"bumped-{mark}"), orders)
    with InitClient(own.admin_servers, f"late-{mark}") as client:
        assert client.ask(InitRequest(f"pay-{mark}", 0, 0)).error == "PRODUCER_FENCED"
        assert client.ask(InitRequest(f"long-{mark}"), 2**31 - 1).error == "INVALID_TRANSACTION_TIMEOUT"
    wait_for_report(own, InitReport, lambda report: report.transactional_id == f"long-{mark}")

    seen: set[tuple[str | None, int, int]] = set()
    named: set[str] = set()
    outcomes: dict[str, list[Outcome]] = {}
    for init in reports_of(own, InitReport):
        client_id, name = init.client_id or "", init.transactional_id
        if mark not in client_id:
            continue
        request = InitRequest(name, init.producer_id, init.producer_epoch)
        answer = InitDecision(init.error, init.result_producer_id, init.result_producer_epoch)
        asked = (name, request.producer_id, request.producer_epoch)
        outcome = classify(request, answer, asked_before=asked in seen, known_before=name in named)
        outcomes.setdefault(client_id.removesuffix(f"-{mark}"), []).append(outcome)
        if init.error == "NONE" and name:
            seen.add(asked)
            named.add(name)
    settled = {name: [one for one in found if one is not Outcome.BUSY] for name, found in outcomes.items()}
    assert settled == {
        "plain": [Outcome.FIRST_ID],
        "one": [Outcome.FIRST_ID],
        "two": [Outcome.NEW_INSTANCE],
        "bumped": [Outcome.FIRST_ID, Outcome.EPOCH_BUMP],
        "late": [Outcome.FENCED, Outcome.REFUSED],
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
    for segment in sorted(folder.glob("*.log")):
        records = MemoryRecords(segment.read_bytes())
        while records.has_next():
            for record in records.next_batch():
                value = bytes(record.value or b"")
                if value.startswith(b"\1\x0f\0"):
                    broker_id, epoch, end = struct.unpack_from(">iqq", value, 3)
                    found.append(Block(end - BLOCK_LENGTH, BLOCK_LENGTH, broker_id, epoch, record.timestamp))
    return found


def test_the_plugin_reports_the_blocks_of_the_metadata_log(own: LocalBroker) -> None:
    with InitClient(own.admin_servers) as client:
        # Past the ninth tenth of a block, the broker asks for the next.
        for _ in range(1000):
            newest = client.ask_until_ready(InitRequest()).producer_id
    wait_for_report(own, BlockReport, lambda report: 0 <= newest - report.first_producer_id < report.length)

    blocks = blocks_of(own)
    assert blocks == blocks_in_the_metadata_log(own)
    assert len(blocks) >= 2
    assert overlaps(blocks) == []


def test_a_restarted_broker_takes_a_new_block_under_a_new_epoch(own: LocalBroker) -> None:
    with InitClient(own.admin_servers) as client:
        before = client.ask_until_ready(InitRequest()).producer_id
    restart(own)
    with InitClient(own.admin_servers) as client:
        after = client.ask_until_ready(InitRequest()).producer_id
    wait_for_report(own, BlockReport, lambda report: report.first_producer_id == after)

    blocks = blocks_of(own)
    (old,) = [block for block in blocks if before in block]
    (new,) = [block for block in blocks if after in block]
    assert after == new.first >= old.end
    assert new.broker_epoch > old.broker_epoch
    assert overlaps(blocks) == []
    assert blocks == blocks_in_the_metadata_log(own)
