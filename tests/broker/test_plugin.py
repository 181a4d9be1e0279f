"""The events that the plugin writes in a real broker of clients that hide, or frame others."""

import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AclPermissionType, ResourceType

from broker.local.local_broker import LocalBroker
from tests.kits.admin_kit import binding, bound
from tests.kits.broker_kit import (
    events_of,
    new_topic,
    produce,
    produce_in_transactions,
    read_events,
    read_records,
    reports_of,
    transactional_producer,
    wait_for_events,
    wait_for_report,
    wait_until,
)
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import frame, init_of, ready_topic
from wire.event_record import ProduceEvent, parse_events
from wire.plugin_reports import InitReport, StopReport
from wire.topics import PRODUCE_EVENTS

INVENTED = 6_000_000_000
"""Above what other tests make up."""


@pytest.fixture(scope="module", autouse=True)
def coordinator(broker: LocalBroker) -> None:
    """Kafka makes the topic of transactions when a client library first looks for its coordinator."""
    transactional_producer(broker.client_config("admin"), "first")


def test_an_event_names_principal_client_and_address(broker: LocalBroker) -> None:
    topic, client = new_topic(broker, "orders"), f"app-{uuid.uuid4().hex}"
    produce(broker.client_config("alice"), topic, 3, client_id=client)

    (event, *_) = wait_for_events(broker, lambda event: event.client_id == client)
    assert (event.principal, event.topic, event.partition) == ("User:alice", topic, 0)
    assert (event.address, event.transactional_id, event.broker_id) == ("127.0.0.1", None, broker.broker_id)
    # The broker was new when the watch began, so no PID is older.
    assert not event.learning
    asked = init_of(broker, event.producer_id)
    assert (asked.principal, asked.client_id, asked.address, asked.error) == (
        "User:alice",
        client,
        "127.0.0.1",
        "NONE",
    )


def test_a_record_has_the_principal_as_its_key_and_is_not_too_large(broker: LocalBroker) -> None:
    topic, pids = ready_topic(broker, "orders", 8), range(INVENTED + 5_000_000_000, INVENTED + 5_000_000_400)
    with Hostile(broker, "mallory", "x" * 250) as mallory:
        for pid in pids:
            mallory.send_produce(topic, batch(pid), partition=pid % 8)
        for _ in pids:
            mallory.receive()
    events_of(broker, *pids)

    records = [(key, value) for key, value in read_records(broker, PRODUCE_EVENTS) if topic.encode() in value]
    assert {key for key, _ in records} == {"User:mallory"}
    assert max(len(value) for _, value in records) <= 100_000
    # Events that come together are packed.
    assert max(len(parse_events(value)) for _, value in records) > 1


def test_ids_of_requests_at_the_same_time_are_all_written(broker: LocalBroker) -> None:
    # given clients whose batches go to partitions of their own, so that none waits for another
    clients, each = 8, 300
    topic = ready_topic(broker, "orders", clients)

    def send(partition: int) -> range:
        pids = range(INVENTED + partition * each, INVENTED + (partition + 1) * each)
        with Hostile(broker, "mallory") as mallory:
            for pid in pids:
                mallory.send_produce(topic, batch(pid), partition=partition)
            for _ in pids:
                mallory.receive()
        return pids

    with ThreadPoolExecutor(clients) as pool:
        sent = {pid: partition for partition, pids in enumerate(pool.map(send, range(clients))) for pid in pids}

    events = events_of(broker, *sent)
    assert {event.producer_id: event.partition for event in events} == sent


def test_an_id_is_written_for_each_user_and_client_that_appends_with_it(broker: LocalBroker) -> None:
    # given clients that take an id in turn, within an interval
    topic = ready_topic(broker, "orders")
    clients = [("alice", "one"), ("alice", "two"), ("mallory", "one")]
    with Hostile(broker, "alice") as alice:
        pid = alice.producer_id()
    for sequence, (user, client) in enumerate(clients):
        with Hostile(broker, user, client) as hostile:
            hostile.produce(topic, batch(pid, sequence=sequence))

    expected = {(f"User:{user}", client) for user, client in clients}
    wait_for_events(
        broker,
        lambda event: event.producer_id == pid,
        lambda events: {(event.principal, event.client_id) for event in events} == expected,
    )


@pytest.mark.parametrize("new_at", [0, 1, 2])
@pytest.mark.parametrize("broken", [False, True], ids=["whole", "broken"])
def test_an_id_that_hides_among_known_ones_is_written(broker: LocalBroker, new_at: int, broken: bool) -> None:
    # given three ids that the plugin has written in this interval, so that it asks Kafka for no text of them
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

    # then that one has its event
    assert {event.topic for event in events_of(broker, new)} == {topics[new_at]}


@pytest.mark.parametrize("new", [INVENTED + 1_000_000_000, 0], ids=["invented", "zero"])
def test_an_id_that_hides_in_another_partition_is_written(broker: LocalBroker, new: int) -> None:
    # given an id that the plugin has written in this interval
    topic, client = ready_topic(broker, "orders", partitions=2), f"app-{uuid.uuid4().hex}"
    with Hostile(broker, "mallory", client) as mallory:
        known = mallory.producer_id()
        mallory.produce(topic, batch(known))

        # when a request appends with it to a partition, and with another one to the next
        mallory.produce_to_partitions(topic, [batch(known, sequence=1), batch(new)])

    wait_for_events(
        broker,
        lambda event: event.client_id == client,
        lambda events: {event.producer_id for event in events} == {known, new},
    )


def test_new_ids_are_written_by_threads_that_have_known_ones_behind_them(broker: LocalBroker) -> None:
    # given an id that each thread of a broker has met, most of them when it was written
    topic = ready_topic(broker, "orders")
    with Hostile(broker, "mallory") as mallory:
        known = mallory.producer_id()
        for sequence in range(50):
            mallory.produce(topic, batch(known, sequence=sequence))

        # when they append with new ones in the same interval
        new = [mallory.producer_id() for _ in range(20)]
        for pid in new:
            mallory.produce(topic, batch(pid))

    # then each has its event
    assert {event.principal for event in events_of(broker, *new)} == {"User:mallory"}


def test_an_event_names_epoch_and_partition_of_its_batch_and_the_address_of_its_client(broker: LocalBroker) -> None:
    topic = ready_topic(broker, "orders", partitions=3)

    with Hostile(broker, "alice", source="127.0.0.2") as alice:
        pid = alice.producer_id()
        alice.produce(topic, batch(pid, epoch=5), partition=2)

    (event,) = events_of(broker, pid)
    assert (event.producer_epoch, event.partition, event.address) == (5, 2, "127.0.0.2")
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
    assert {event.producer_id: event.client_id for event in events_of(broker, *pids)} == {
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

    assert error == 0
    answer = wait_for_report(
        broker,
        InitReport,
        lambda report: report.transactional_id == transactional_id and report.result_producer_id == pid,
    )
    assert (answer.principal, answer.client_id) == ("User:alice", "owner")


def test_a_request_of_a_failing_and_an_invented_batch_frames_nobody(broker: LocalBroker) -> None:
    invented = frame(broker, 200)

    assert {event.principal for event in events_of(broker, *invented)} == {"User:mallory"}


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

    for event in events_of(broker, *pids):
        assert event.principal == "User:mallory"
        assert event.client_id is not None
        assert len(event.client_id) <= 256 + 33
    known = init_of(broker, pids[1])
    assert known.principal == "User:mallory"
    assert known.transactional_id is not None
    assert known.transactional_id.startswith(transactional_id[:120])


def test_transactions_of_a_client_library_need_no_init_to_be_placed(broker: LocalBroker) -> None:
    topic, ids = new_topic(broker, "orders"), [f"tx-{uuid.uuid4().hex}" for _ in range(4)]
    for transactional_id in ids:
        produce_in_transactions(transactional_producer(broker.client_config("mallory"), transactional_id), topic, 2)

    def are_all(events: list[ProduceEvent]) -> bool:
        return {event.transactional_id for event in events} == {*ids}

    events = wait_for_events(broker, lambda event: event.transactional_id in ids, are_all)
    assert {event.principal for event in events} == {"User:mallory"}


@pytest.mark.parametrize("name", ["__hidden", "produce-events"])
def test_topics_that_look_internal_are_seen(broker: LocalBroker, name: str) -> None:
    topic = ready_topic(broker, name)
    with Hostile(broker, "mallory") as mallory:
        pid = mallory.producer_id()
        mallory.produce(topic, batch(pid))

    assert [event.topic for event in events_of(broker, pid)] == [topic]


def test_markers_and_replayed_batches_are_no_events(tmp_path: Path, jars: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        topic = ready_topic(broker, "orders")
        with Hostile(broker, "alice") as alice:
            pid = alice.producer_id()
            alice.produce(topic, batch(pid))
        events_of(broker, pid)
        broker.kill()
        broker.start()
        producer = transactional_producer(broker.client_config("alice"), "tx")
        produce_in_transactions(producer, topic)
        produce_in_transactions(producer, topic)
        wait_for_events(broker, lambda event: event.transactional_id == "tx")
        events = read_events(broker)

        assert [event.producer_id for event in events].count(pid) == 1
        assert {event.principal for event in events} == {"User:alice"}
        broker.stop()
        broker.start()
        # The killed run could not say that it ended.
        assert [report.shutdown for report in reports_of(broker, StopReport)] == [True]
