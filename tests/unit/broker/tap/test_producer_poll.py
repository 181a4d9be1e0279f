import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from broker.errors import BrokerUnreachableError
from broker.kafka import producers
from broker.kafka.config import KafkaConfig
from broker.kafka.producers import ProducersAdmin
from broker.tap import producer_poll, tap_output
from broker.tap.heartbeats import HEARTBEAT_S
from broker.tap.poll_heartbeats import PollHeartbeats
from broker.tap.poll_placing import OwnerPatterns, OwnerRule, PollOwners
from broker.tap.producer_poll import ProducerPoll
from broker.tap.tap_output import TapOutput
from wire.event_record import events_of
from wire.heartbeat import TapHeartbeat
from wire.records import ProduceEvent
from wire.topics import PRODUCE_EVENTS, TAP_STATUS

NO_RIGHT = 29
START_S = 1_800_000_000.0
Partition = tuple[str, int]
Round = Mapping[Partition, Mapping[int, int] | None]
"""The time of the last batch of each producer id of a partition; None for one that does not answer."""
ORDERS, BILLS = ("orders", 0), ("bills", 0)
OWNERS = (
    OwnerRule("User:billing", transactional_id=re.compile("t")),
    OwnerRule("User:shop", topic=re.compile("orders|produce-events")),
    OwnerRule("User:bank", topic=re.compile("bills")),
)
LEADERLESS: Mapping[int, int] = {-1: -1}
Poll = Callable[..., "Events"]


class Cluster(ProducersAdmin):
    """A broker; it stops the poll after the last round."""

    def __init__(self, rounds: Sequence[Round | None], seconds: float) -> None:
        self.rounds, self.seconds, self.number = rounds, seconds, -1
        self.names: dict[int, dict[int, str] | None] = {}
        self.stop = threading.Event()

    def close(self) -> None: ...

    def clock(self) -> float:
        return START_S + self.seconds * max(self.number, 0)

    def partitions_by_leader(self) -> dict[int, list[Partition]]:
        self.number += 1
        if self.number == len(self.rounds):
            self.stop.set()
            return {}
        found = self.rounds[self.number]
        if found is None:
            raise BrokerUnreachableError
        led = {1: [where for where, held in found.items() if held is not LEADERLESS]}
        return led | {-1: [where for where, held in found.items() if held is LEADERLESS]}

    def producers(self, _broker_id: int, partitions: Iterable[Partition]) -> Any:
        return SimpleNamespace(topics=[self._topic(*where) for where in partitions])

    def _topic(self, name: str, number: int) -> Any:
        held = (self.rounds[self.number] or {})[name, number]
        entries = [
            SimpleNamespace(producer_id=pid, producer_epoch=0, last_timestamp=last_ms, current_txn_start_offset=-1)
            for pid, last_ms in (held or {}).items()
        ]
        code = NO_RIGHT if held is None else 0
        about = SimpleNamespace(partition_index=number, error_code=code, active_producers=entries)
        return SimpleNamespace(name=name, partitions=[about])

    def transactional_ids(self) -> dict[int, str]:
        names = self.names.get(self.number, {})
        if names is None:
            raise BrokerUnreachableError
        return names


class Events(list[ProduceEvent]):
    """A producer that keeps what it is given, and stops the poll at a heartbeat."""

    records = 0

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self.stop = stop
        self.heartbeats: list[TapHeartbeat] = []

    def list_topics(self, topic: str, _timeout_s: float) -> Any:
        assert topic == TAP_STATUS
        return SimpleNamespace(brokers={1: "kafka-1", 2: "kafka-2"})

    def produce(self, topic: str, *, value: bytes, key: bytes) -> None:
        if topic == TAP_STATUS:
            self.heartbeats.append(msgspec.json.decode(value, type=TapHeartbeat))
            assert self.heartbeats[-1].key() == key
            self.stop.set()
            return
        assert topic == PRODUCE_EVENTS
        events = events_of(value)
        self += events
        assert {each.key() for each in events} == {key}
        self.records += 1

    def flush(self, _timeout_s: float) -> int:
        return 0

    def poll(self, _timeout_s: float) -> int:
        return 0

    def purge(self) -> None:
        pass


@pytest.fixture
def poll(monkeypatch: pytest.MonkeyPatch) -> Poll:
    """Polls rounds that are `seconds` apart, and returns the events; `names` are transactional ids by round.

    The poll waits `interval_s` between two rounds, and sends heartbeats meanwhile.
    """

    def run(
        *rounds: Round | None,
        seconds: float = 60,
        names: dict[int, dict[int, str] | None] | None = None,
        interval_s: float = 0,
    ) -> Events:
        cluster = Cluster(rounds, seconds)
        events = Events(cluster.stop)
        cluster.names = names or {}
        monkeypatch.setattr(producer_poll, "ProducersAdmin", lambda _: cluster)
        monkeypatch.setattr(tap_output, "Producer", lambda *_, **__: events)
        monkeypatch.setattr(producer_poll, "require_topic", lambda *_: 1)
        owners = PollOwners(OwnerPatterns(OWNERS), from_acls=False)
        kafka = KafkaConfig({"bootstrap.servers": "nowhere:1"})
        ProducerPoll(kafka, interval_s, owners=owners, clock=cluster.clock).run(cluster.stop)
        return events

    return run


def ids(events: Iterable[ProduceEvent]) -> list[int]:
    return [each.producer_id for each in events]


def test_ids_of_the_first_round_are_old_and_later_ones_are_new(poll: Poll) -> None:
    events = poll({ORDERS: {1: 5}}, {ORDERS: {1: 5, 2: 5}, ("logs", 0): {3: 5}})
    at_ms = round(1000 * (START_S + 60))
    assert events == [ProduceEvent(at_ms, "User:shop", 2, 0, 1, "orders", 0)]


def test_an_id_without_a_new_batch_is_told_no_more(poll: Poll) -> None:
    assert ids(poll({}, *[{ORDERS: {1: 5}}] * 4)) == [1]


def test_an_id_with_new_batches_is_told_once_a_tick(poll: Poll) -> None:
    rounds: list[Round] = [{ORDERS: {1: number}} for number in range(6)]
    assert [each.timestamp_ms for each in poll(*rounds, seconds=5)] == [
        round(1000 * (START_S + seconds)) for seconds in (10, 20)
    ]


@pytest.mark.parametrize("moved", [None, {}])
def test_an_id_of_a_partition_that_does_not_answer_stays_known_and_one_that_is_gone_does_not(
    poll: Poll, moved: dict[int, int] | None
) -> None:
    events = poll({ORDERS: {1: 5}}, {ORDERS: moved}, {ORDERS: {1: 5}})
    assert ids(events) == ([] if moved is None else [1])


def test_while_no_broker_answers_all_stay_known(poll: Poll) -> None:
    assert ids(poll({ORDERS: {1: 5}}, None, {ORDERS: {1: 5}})) == []


@pytest.mark.parametrize("first", [None, {ORDERS: None}, {ORDERS: None, BILLS: {7: 5}}, {ORDERS: LEADERLESS}])
def test_ids_in_the_first_answer_of_a_partition_are_old(poll: Poll, first: Round | None) -> None:
    events = poll(first, first, {ORDERS: {1: 5}}, {ORDERS: {1: 5, 2: 5}})
    assert ids(events) == [2]


@pytest.mark.parametrize("silent", [None, LEADERLESS])
def test_ids_that_appear_while_a_partition_does_not_answer_are_new(
    poll: Poll, silent: Mapping[int, int] | None
) -> None:
    assert ids(poll({ORDERS: {1: 5}}, {ORDERS: silent}, {ORDERS: {1: 5, 2: 5}})) == [2]


def test_partitions_beside_one_that_does_not_answer_count(poll: Poll) -> None:
    assert ids(poll({}, {ORDERS: None, BILLS: {1: 5}})) == [1]


@pytest.mark.parametrize(("orders_ms", "bills_ms", "owner"), [(5, 6, "User:bank"), (6, 5, "User:shop")])
def test_an_id_in_several_partitions_is_of_who_wrote_last(
    poll: Poll, orders_ms: int, bills_ms: int, owner: str
) -> None:
    events = poll({}, {ORDERS: {1: orders_ms}, BILLS: {1: bills_ms}})
    assert [each.principal for each in events] == [owner]


def test_ids_found_while_transactional_ids_are_unavailable_are_reported_with_them_later(poll: Poll) -> None:
    events = poll({}, *[{ORDERS: {1: 5}}] * 3, names={1: None, 2: {1: "t"}})
    assert [(each.principal, each.transactional_id) for each in events] == [("User:billing", "t")]


def test_our_own_topics_are_not_asked_for(poll: Poll) -> None:
    assert ids(poll({}, {(PRODUCE_EVENTS, 0): {1: 5}})) == []


def test_at_the_end_each_broker_has_a_heartbeat_that_counts_the_whole_poll(poll: Poll) -> None:
    beats = poll({}, {ORDERS: {1: 5}}, {("foreign", 0): {2: 5}, BILLS: None}).heartbeats

    assert [(each.broker_id, each.cluster_brokers, each.stopped) for each in beats] == [
        (1, [1, 2], True),
        (2, [1, 2], True),
    ]
    counters = {"polls": 3, "requests": 5, "failed_partitions": 1, "events": 1, "unowned": 1}
    assert [each.counters for each in beats] == [counters] * 2


def test_a_broker_whose_partitions_answer_again_has_no_problem(poll: Poll) -> None:
    assert [each.problem for each in poll({ORDERS: None}, {ORDERS: {}}).heartbeats] == [None, None]


def test_a_heartbeat_says_how_many_partitions_did_not_answer_in_all_requests_of_a_round(
    poll: Poll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "PARTITIONS_PER_REQUEST", 1)
    held: Round = {ORDERS: None, BILLS: None, ("logs", 0): {1: 5}}

    beats = poll(held, interval_s=5.0).heartbeats

    problem = "2 of its partitions did not answer the last poll"
    assert [(each.broker_id, each.problem, each.stopped) for each in beats] == [
        (1, problem, False),
        (2, None, False),
        (1, problem, True),
        (2, None, True),
    ]


def test_heartbeats_are_due_again_only_after_their_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, events = [0.0], Events(threading.Event())
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    monkeypatch.setattr(tap_output, "Producer", lambda *_, **__: events)
    heartbeats, output = PollHeartbeats(lambda: START_S), TapOutput({"bootstrap.servers": "nowhere:1"}, PRODUCE_EVENTS)

    due = [heartbeats.are_due()]
    heartbeats.send(output, {}, {}, stopped=False)
    for now_s[0] in (HEARTBEAT_S - 1, HEARTBEAT_S):
        due.append(heartbeats.are_due())

    assert due == [True, False, True]
