import hashlib
import itertools
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AclPermissionType, ResourceType

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import new_topic, produce, produce_in_transactions, transactional_producer, wait_until
from tests.kits.class_kit import batches_of, frame, init_of, lines_of, ready_topic
from tests.kits.hold_kit import binding, bound
from tests.kits.hostile_kit import Hostile, batch
from wire.broker_lines import BatchLine, BrokerLine, InitLine, StartLine

INVENTED = 6_000_000_000
"""Above what other tests make up."""
TICK_MS = 50


@pytest.fixture(scope="module", autouse=True)
def coordinator(broker: LocalBroker) -> None:
    """Kafka makes the topic of transactions when a client library first looks for its coordinator."""
    transactional_producer(broker.client_config("admin"), "first")


@pytest.fixture(scope="module")
def ticking(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker whose class has short ticks."""
    with LocalBroker(tmp_path_factory.mktemp("ticking"), jars=jars, pid_quota_tick_ms=TICK_MS) as running:
        yield running


def assert_numbered(lines: list[BrokerLine]) -> None:
    """Without a gap, from the start of each run."""
    begins = [index for index, line in enumerate(lines) if isinstance(line, StartLine)]
    assert begins[0] == 0
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        assert [line.number for line in lines[begin:end]] == list(range(1, end - begin + 1))


def test_a_batch_names_principal_client_and_address(broker: LocalBroker) -> None:
    topic, client = new_topic(broker, "orders"), f"app-{uuid.uuid4().hex}"
    produce(broker.client_config("alice"), topic, 3, client_id=client)

    def found() -> list[BatchLine]:
        return [line for line in lines_of(broker) if isinstance(line, BatchLine) and line.client_id == client]

    wait_until(lambda: bool(found()), "a line")
    (line, *_) = found()
    assert (line.principal, line.topic, line.partition) == ("User:alice", topic, 0)
    assert (line.address, line.transactional_id, line.broker_id) == ("127.0.0.1", None, broker.broker_id)
    asked = init_of(broker, line.producer_id)
    assert (asked.principal, asked.client_id, asked.address, asked.error) == (
        "User:alice",
        client,
        "127.0.0.1",
        "NONE",
    )


def test_lines_are_numbered_without_a_gap_from_the_start_of_the_run(broker: LocalBroker) -> None:
    assert_numbered(lines_of(broker))


def test_lines_of_requests_at_the_same_time_are_in_the_order_of_their_numbers(broker: LocalBroker) -> None:
    # given clients whose batches go to partitions of their own, so that none waits for another
    clients, each = 8, 300
    topic = ready_topic(broker, "orders", clients)

    def send(partition: int) -> int:
        first = INVENTED + partition * each
        with Hostile(broker, "mallory") as mallory:
            for pid in range(first, first + each):
                mallory.send_produce(topic, batch(pid), partition=partition)
            for _ in range(each):
                mallory.receive()
        return first

    with ThreadPoolExecutor(clients) as pool:
        firsts = list(pool.map(send, range(clients)))

    batches_of(broker, *(first + each - 1 for first in firsts))
    assert_numbered(lines_of(broker))


def test_repeats_within_a_tick_are_written_once(broker: LocalBroker) -> None:
    topic, client = ready_topic(broker, "orders"), f"app-{uuid.uuid4().hex}"
    with Hostile(broker, "alice", client) as alice:
        pid = alice.producer_id()
        for sequence in range(300):
            alice.produce(topic, batch(pid, sequence=sequence))

    lines = batches_of(broker, pid)
    per_tick = Counter(line.timestamp_ms // 10_000 for line in lines)
    assert set(per_tick.values()) == {1}


def test_an_id_is_written_for_each_user_and_client_that_appends_with_it(broker: LocalBroker) -> None:
    # given clients that take an id in turn, within a tick
    topic = ready_topic(broker, "orders")
    clients = [("alice", "one"), ("alice", "two"), ("mallory", "one")]
    with Hostile(broker, "alice") as alice:
        pid = alice.producer_id()
    for sequence, (user, client) in enumerate(clients):
        with Hostile(broker, user, client) as hostile:
            hostile.produce(topic, batch(pid, sequence=sequence))

    def found() -> set[tuple[str, str | None]]:
        return {(line.principal, line.client_id) for line in batches_of(broker, pid)}

    wait_until(lambda: found() == {(f"User:{user}", client) for user, client in clients}, "a line of each")


@pytest.mark.parametrize("new_at", [0, 1, 2])
@pytest.mark.parametrize("broken", [False, True], ids=["whole", "broken"])
def test_an_id_that_hides_among_known_ones_is_written(broker: LocalBroker, new_at: int, broken: bool) -> None:
    # given three ids that the class has written in this tick, so that it asks Kafka for no text of them
    topics = [ready_topic(broker, f"topic-{number}") for number in range(4)]
    with Hostile(broker, "mallory", f"app-{uuid.uuid4().hex}") as mallory:
        known = [mallory.producer_id() for _ in range(3)]
        for number, pid in enumerate(known):
            mallory.produce(topics[number], batch(pid))
        new = mallory.producer_id()

        # when a request appends with them, and with another one
        ids = [*known[:new_at], new, *known[new_at + 1 :]]
        batches = [batch(pid, sequence=0 if pid == new else 1) for pid in ids]
        batches.append(batch()[:-1] + b"\xff" if broken else batch())
        mallory.produce_together(None, topics, batches)

    # then that one has its line
    assert {line.producer_id for line in batches_of(broker, new)} == {new}


@pytest.mark.parametrize("new", [INVENTED + 1_000_000_000, 0], ids=["invented", "zero"])
def test_an_id_that_hides_in_another_partition_is_written(broker: LocalBroker, new: int) -> None:
    # given an id that the class has written in this tick
    topic, client = ready_topic(broker, "orders", partitions=2), f"app-{uuid.uuid4().hex}"
    with Hostile(broker, "mallory", client) as mallory:
        known = mallory.producer_id()
        mallory.produce(topic, batch(known))

        # when a request appends with it to a partition, and with another one to the next
        mallory.produce_to_partitions(topic, [batch(known, sequence=1), batch(new)])

    def found() -> set[int]:
        return {line.producer_id for line in batches_of(broker, known, new) if line.client_id == client}

    wait_until(lambda: found() == {known, new}, "a line of each")


def test_an_id_in_constant_use_is_written_in_each_tick(ticking: LocalBroker) -> None:
    used = set[int]()
    topic = ready_topic(ticking, "orders")
    with Hostile(ticking, "alice") as alice:
        pid, end = alice.producer_id(), alice.producer_id()
        for sequence in itertools.count():
            tick = time.time_ns() // 1_000_000 // TICK_MS
            alice.produce(topic, batch(pid, sequence=sequence))
            if time.time_ns() // 1_000_000 // TICK_MS == tick:
                used.add(tick)
            if len(used) == 20:
                break
        alice.produce(topic, batch(end))
    lines = batches_of(ticking, pid, end)

    assert used <= {line.timestamp_ms // TICK_MS for line in lines if line.producer_id == pid}


def test_a_request_that_lasts_into_a_later_tick_is_written_there_too(ticking: LocalBroker) -> None:
    # given requests whose many batches take the broker several ticks, each right behind one with the same new id
    partitions, ids = 20, range(INVENTED + 2_000_000_000, INVENTED + 2_000_000_008)
    topic, other = ready_topic(ticking, "orders", partitions), ready_topic(ticking, "other")
    with Hostile(ticking, "mallory") as mallory:
        for pid in ids:
            long = batch(pid, zeros=8 << 20)
            mallory.send_produce(other, batch(pid))
            mallory.send_to_partitions(topic, [long] * partitions)
            mallory.receive()
            mallory.receive()
    written = Counter(line.producer_id for line in batches_of(ticking, *ids))

    # then no id has only the line of the short request
    assert all(written[pid] > 1 for pid in ids), written


def test_new_ids_are_written_by_threads_that_have_known_ones_behind_them(broker: LocalBroker) -> None:
    # given an id that each thread of a broker has met, most of them when it was written
    topic = ready_topic(broker, "orders")
    with Hostile(broker, "mallory") as mallory:
        known = mallory.producer_id()
        for sequence in range(50):
            mallory.produce(topic, batch(known, sequence=sequence))

        # when they append with new ones in the same tick
        new = [mallory.producer_id() for _ in range(20)]
        for pid in new:
            mallory.produce(topic, batch(pid))

    # then each has its line
    assert {line.producer_id for line in batches_of(broker, *new)} == {*new}


def test_an_id_is_written_again_in_a_later_tick(ticking: LocalBroker) -> None:
    topic = ready_topic(ticking, "orders")
    with Hostile(ticking, "alice") as alice:
        pid = alice.producer_id()
        for sequence in range(2):
            alice.produce(topic, batch(pid, sequence=sequence))
            time.sleep(0.2)

    wait_until(lambda: len(batches_of(ticking, pid)) == 2, "two lines")


def test_a_line_names_epoch_and_partition_of_its_batch_and_the_address_of_its_client(broker: LocalBroker) -> None:
    topic = ready_topic(broker, "orders", partitions=3)

    with Hostile(broker, "alice", source="127.0.0.2") as alice:
        pid = alice.producer_id()
        alice.produce(topic, batch(pid, epoch=5), partition=2)

    (line,) = batches_of(broker, pid)
    assert (line.producer_epoch, line.partition, line.address) == (5, 2, "127.0.0.2")
    assert init_of(broker, pid).address == "127.0.0.2"


def test_client_ids_that_differ_far_behind_are_told_apart(broker: LocalBroker) -> None:
    topic, begin = ready_topic(broker, "orders"), f"{uuid.uuid4().hex}{'x' * 1000}"
    clients = [f"{begin}{end}" for end in ("1", "2")]
    pids = []
    for client in clients:
        with Hostile(broker, "alice", client) as alice:
            pids.append(alice.producer_id())
            alice.produce(topic, batch(pids[-1]))

    digests = [hashlib.sha256(client.encode()).hexdigest()[:32] for client in clients]
    assert {line.producer_id: line.client_id for line in batches_of(broker, *pids)} == {
        pid: f"{begin[:256]}~{digest}" for pid, digest in zip(pids, digests, strict=True)
    }


def test_a_refused_request_for_a_transactional_id_hides_no_answer_to_another(broker: LocalBroker) -> None:
    # given a request that the broker refuses before the coordinator hears of it
    transactional_id = f"tx-{uuid.uuid4().hex}"
    kind, allow = ResourceType.TRANSACTIONAL_ID, AclPermissionType.ALLOW
    only_alice = binding(transactional_id, "User:alice", kind=kind, permission=allow)
    with bound(broker, only_alice), Hostile(broker, "mallory") as mallory, Hostile(broker, "alice", "owner") as alice:
        refused = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        wait_until(lambda: mallory.init(transactional_id)[0] == refused, "mallory may not")
        # On a connection, a request is read once the answer before it is out.
        mallory.producer_id()

        error, pid, _ = alice.init(transactional_id)

    def answered() -> set[tuple[str, str | None, int]]:
        inits = [line for line in lines_of(broker) if isinstance(line, InitLine)]
        return {
            (line.principal, line.client_id, line.result_producer_id)
            for line in inits
            if line.transactional_id == transactional_id
        }

    assert error == 0
    wait_until(lambda: ("User:alice", "owner", pid) in answered(), "the answer to her")


def test_a_request_of_a_failing_and_an_invented_batch_frames_nobody(broker: LocalBroker) -> None:
    invented = frame(broker, 200)

    assert {line.principal for line in batches_of(broker, *invented)} == {"User:mallory"}


@pytest.mark.parametrize(
    "text", ["🦆" * 3000, "x" * 32_000, 'a"\\\n\r\t\0\x7f\x1b[31m', "]", "'s InitProducerIdRequest with result", "…"]
)
def test_no_text_of_a_client_hides_or_moves_its_batches(broker: LocalBroker, text: str) -> None:
    topic = ready_topic(broker, "orders")
    transactional_id = f"{uuid.uuid4().hex}{text}"
    # Only bytes that fit into a Kafka string.
    transactional_id = transactional_id.encode()[:32_000].decode(errors="ignore")
    with Hostile(broker, "mallory", text.encode()[:32_000].decode(errors="ignore")) as mallory:
        pids = [mallory.producer_id(), mallory.producer_id(transactional_id)]
        for pid in pids:
            mallory.produce(topic, batch(pid))

    for line in batches_of(broker, *pids):
        assert line.principal == "User:mallory"
        assert line.client_id is not None
        assert len(line.client_id) <= 256 + 33
    known = init_of(broker, pids[1])
    assert known.principal == "User:mallory"
    assert known.transactional_id is not None
    assert known.transactional_id.startswith(transactional_id[:120])


def test_transactions_of_a_client_library_need_no_init_to_be_placed(broker: LocalBroker) -> None:
    topic, ids = new_topic(broker, "orders"), [f"tx-{uuid.uuid4().hex}" for _ in range(4)]
    for transactional_id in ids:
        produce_in_transactions(transactional_producer(broker.client_config("mallory"), transactional_id), topic, 2)

    def found() -> dict[str | None, BatchLine]:
        every = [line for line in lines_of(broker) if isinstance(line, BatchLine)]
        return {line.transactional_id: line for line in every if line.transactional_id in ids}

    wait_until(lambda: found().keys() == {*ids}, "each transaction has a line")
    assert {line.principal for line in found().values()} == {"User:mallory"}


@pytest.mark.parametrize("name", ["__hidden", "produce-events"])
def test_topics_that_look_internal_are_seen(broker: LocalBroker, name: str) -> None:
    topic = ready_topic(broker, name)
    with Hostile(broker, "mallory") as mallory:
        pid = mallory.producer_id()
        mallory.produce(topic, batch(pid))

    assert [line.topic for line in batches_of(broker, pid)] == [topic]


def test_markers_and_replayed_batches_are_no_lines(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        topic = ready_topic(broker, "orders")
        with Hostile(broker, "alice") as alice:
            pid = alice.producer_id()
            alice.produce(topic, batch(pid))
        batches_of(broker, pid)
        broker.kill()
        broker.start()
        producer = transactional_producer(broker.client_config("alice"), "tx")
        produce_in_transactions(producer, topic)
        produce_in_transactions(producer, topic)
        wait_until(
            lambda: any(isinstance(each, BatchLine) and each.transactional_id for each in lines_of(broker)), "tx"
        )
        lines = [line for line in lines_of(broker) if isinstance(line, BatchLine)]

    assert [line.producer_id for line in lines].count(pid) == 1
    assert {line.principal for line in lines} == {"User:alice"}
    raw = broker.log_file.read_text(encoding="utf-8")
    assert json.loads(raw.splitlines()[-1])["shutdown"] is True
