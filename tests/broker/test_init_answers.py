"""Compares a real broker's answers to INIT_PRODUCER_ID, and a tap's records, with the pure decision function."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError, Producer

from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from broker.log.metadata_blocks import read_metadata_blocks
from lifecycle.producer_id_blocks import find_violations
from tests.kits.broker_kit import (
    broker_tap,
    frozen,
    new_topic,
    produce,
    read_events,
    restart,
    running,
    transactional_producer,
    wait_until,
    wait_until_idle,
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
from wire.topics import PRODUCER_ID_BLOCKS, PRODUCER_INITS

# The model can't know the next id: this one stands for it.
FRESH = -2


@pytest.fixture(scope="module")
def own(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own: it is stopped and started."""
    with LocalBroker(tmp_path_factory.mktemp("inits"), jars=jars) as started:
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


# What the tap tells of real producers


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


def test_the_answers_to_real_producers_are_told_and_classified(own: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(own.admin_config())
    settings, orders, mark = own.client_config("alice"), new_topic(own, "orders"), uuid.uuid4().hex[:8]
    tap = broker_tap(own, topic=new_topic(own, "events"), from_end=True)
    with running(tap):
        wait_until_idle(tap)
        produce(settings, orders, client_id=f"plain-{mark}")
        transactional_producer({**settings, "client.id": f"one-{mark}"}, f"pay-{mark}")
        transactional_producer({**settings, "client.id": f"two-{mark}"}, f"pay-{mark}")
        bumped = {**settings, "client.id": f"bumped-{mark}", "message.timeout.ms": "1000"}
        bump_by_an_error(own, transactional_producer(bumped, f"bumped-{mark}"), orders)
        with InitClient(own.admin_servers, f"late-{mark}") as client:
            assert client.ask(InitRequest(f"pay-{mark}", 0, 0)).error == "PRODUCER_FENCED"
            assert client.ask(InitRequest(f"long-{mark}"), 2**31 - 1).error == "INVALID_TRANSACTION_TIMEOUT"
        # It is the last one.
        wait_until(lambda: tap.counters.inits >= 7, "all answers")
        wait_until_idle(tap)

    seen: set[tuple[str | None, int, int]] = set()
    named: set[str] = set()
    outcomes: dict[str, list[Outcome]] = {}
    for _, init in read_events(own, PRODUCER_INITS):
        client_id = init["client_id"]
        if mark not in client_id:
            continue
        name = init["transactional_id"]
        request = InitRequest(name, init["producer_id"], init["producer_epoch"])
        answer = InitDecision(init["error"], init["result_producer_id"], init["result_producer_epoch"])
        asked = (name, request.producer_id, request.producer_epoch)
        outcome = classify(request, answer, asked_before=asked in seen, known_before=name in named)
        outcomes.setdefault(client_id.removesuffix(f"-{mark}"), []).append(outcome)
        if init["error"] == "NONE" and name:
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


def test_a_tap_reports_the_blocks_of_the_metadata_log(own: LocalBroker, tmp_path: Path) -> None:
    ensure_topics(own.admin_config())
    folder = own.log_file.parent / "data"
    tap = broker_tap(own, topic=new_topic(own, "events"), metadata_log=folder)
    with running(tap):
        wait_until(lambda: tap.counters.id_blocks >= 1, "the first block")
        with InitClient(own.admin_servers) as client:
            # Past the ninth tenth of a block, the broker asks for the next.
            for _ in range(1000):
                client.ask_until_ready(InitRequest())
        wait_until(lambda: tap.counters.id_blocks >= 2, "the second block")
        wait_until_idle(tap)

    tapped = {
        (found["first_producer_id"], found["length"], found["broker_id"], found["broker_epoch"], found["timestamp_ms"])
        for _, found in read_events(own, PRODUCER_ID_BLOCKS)
    }
    history = read_metadata_blocks(folder)
    assert tapped == {
        (block.first, block.length, block.broker_id, block.broker_epoch, block.allocated_at_ms)
        for block in history.blocks
    }
    assert history.complete_from == 0
    assert find_violations(history.blocks) == []


def test_a_restarted_broker_takes_a_new_block_under_a_new_epoch(own: LocalBroker) -> None:
    with InitClient(own.admin_servers) as client:
        before = client.ask_until_ready(InitRequest()).producer_id
    restart(own)
    with InitClient(own.admin_servers) as client:
        after = client.ask_until_ready(InitRequest()).producer_id

    blocks = read_metadata_blocks(own.log_file.parent / "data").blocks
    (old,) = [block for block in blocks if before in block]
    (new,) = [block for block in blocks if after in block]
    assert after == new.first >= old.end
    assert new.broker_epoch > old.broker_epoch
    assert find_violations(blocks) == []
