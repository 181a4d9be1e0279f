"""The newest states of plugins, read from a topic of fake records."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition

from broker.errors import BrokerUnreachableError, TopicMissingError
from broker.kafka import report_tail
from broker.kafka.report_tail import LOOK_BACK_MS, DatedState, newest_states
from wire.plugin_reports import AliveReport, InitReport, PluginReport, StartReport, StopReport

NOW_MS = 1_800_000_000_000
CLUSTER = "a cluster"
CONFIG = {"bootstrap.servers": "kafka:9092"}
Record = tuple[int, bytes | None]


class Topic:
    """Partition 0 of the topic, from the offset `low` on. It counts the records that were read."""

    def __init__(self, records: Sequence[Record], low: int = 0) -> None:
        self.records, self.low, self.at, self.read = records, low, 0, 0
        self.ends_early = False

    @property
    def high(self) -> int:
        return self.low + len(self.records)

    def assign(self, partitions: list[TopicPartition]) -> None:
        (at,) = partitions
        assert self.low <= at.offset <= self.high
        self.at = at.offset

    def consume(self, most: int, _: float) -> list[Any]:
        if self.ends_early:
            return []
        offsets = range(self.at, min(self.at + most, self.high))
        self.at, self.read = offsets.stop, self.read + len(offsets)
        return [message(each, *self.records[each - self.low]) for each in offsets]

    def position(self, _: object) -> list[TopicPartition]:
        return [TopicPartition("reports", 0, self.at)]


def message(offset: int, at_ms: int, value: bytes | None) -> SimpleNamespace:
    fields = {"error": None, "offset": offset, "value": value, "timestamp": (2, at_ms)}
    return SimpleNamespace(**{name: lambda each=each: each for name, each in fields.items()})


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The brokers that are up."""
    up = [1]
    admin = SimpleNamespace(metadata=lambda: SimpleNamespace(cluster_id=CLUSTER, brokers=dict.fromkeys(up)))
    monkeypatch.setattr(report_tail, "admin_client", lambda _: admin)
    return up


def read(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> dict[int, DatedState]:
    @contextmanager
    def reading(*_: object) -> Iterator[tuple[Topic, dict[int, tuple[int, int]]]]:
        yield topic, {0: (topic.low, topic.high)}

    monkeypatch.setattr(report_tail, "reading", reading)
    return newest_states(CONFIG)


def alive(broker_id: int = 1, kind: type[StartReport | AliveReport | StopReport] = AliveReport, **more: Any) -> bytes:
    usual: dict[str, Any] = {"timestamp_ms": NOW_MS, "broker_id": broker_id, "cluster_id": CLUSTER, "run": "r"}
    usual |= {"plugin_version": "1", "kafka_version": "4.3.1", "repeat_ms": 10_000, "window_ms": 3_600_000}
    return msgspec.json.encode(kind(**(usual | more)))


def init(broker_id: int = 1) -> bytes:
    report: PluginReport = InitReport(NOW_MS, broker_id, CLUSTER, principal="User:a", address="10.0.0.7", error="NONE")
    return msgspec.json.encode(report)


def runs(found: dict[int, DatedState]) -> dict[int, tuple[str, int]]:
    return {broker_id: (each.state.run, each.appended_ms - NOW_MS) for broker_id, each in found.items()}


def test_the_newest_state_of_each_broker_counts_of_whichever_kind(
    brokers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers[:] = [1, 2, 3]
    records = [
        (NOW_MS - 4, alive(1, run="a")),
        (NOW_MS - 3, alive(1, StopReport, run="a", shutdown=True)),
        (NOW_MS - 3, alive(2, run="b")),
        (NOW_MS - 2, init(2)),
        (NOW_MS - 1, alive(3, StartReport, run="c")),
    ]

    found = read(Topic(records, low=7), monkeypatch)

    assert runs(found) == {1: ("a", -3), 2: ("b", -3), 3: ("c", -1)}
    assert {number: type(each.state) for number, each in found.items()} == {
        1: StopReport,
        2: AliveReport,
        3: StartReport,
    }


def test_records_of_another_cluster_and_of_other_programs_do_not_count(
    brokers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = [None, b"", b"rubbish", b"\xff", b"[" * 5_000, b"{}", alive(cluster_id="another", run="theirs")]
    records = [(NOW_MS, alive(run="ours")), *((NOW_MS, each) for each in strange)]

    assert runs(read(Topic(records), monkeypatch)) == {1: ("ours", 0)}


def test_a_flood_of_answers_after_the_newest_state_is_searched_backwards(
    brokers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_tail, "_PORTION", 10)
    states = [(NOW_MS, alive(run=str(number))) for number in range(95)]

    topic = Topic([*states, *[(NOW_MS, init())] * 25])

    assert runs(read(topic, monkeypatch)) == {1: ("94", 0)}
    assert topic.read == 30


def test_the_search_ends_at_the_cap_and_a_few_minutes_before_the_newest_record(
    brokers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_tail, "_PORTION", 10)
    monkeypatch.setattr(report_tail, "MAX_RECORDS", 30)
    flood, old = (NOW_MS, init()), (NOW_MS - LOOK_BACK_MS - 1, init())

    topic = Topic([(NOW_MS, alive()), *[flood] * 100])
    assert read(topic, monkeypatch) == {}
    assert topic.read == 30

    topic = Topic([(NOW_MS - LOOK_BACK_MS - 2, alive()), *[old] * 50, *[flood] * 5])
    assert read(topic, monkeypatch) == {}
    assert topic.read == 10


def test_a_state_of_the_last_portion_counts_however_old_it_is(
    brokers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A doctor then tells since when the plugin is silent.
    topic = Topic([(NOW_MS - 86_400_000, alive(1, run="old"))])

    assert runs(read(topic, monkeypatch)) == {1: ("old", -86_400_000)}
    assert read(Topic([]), monkeypatch) == {}


def test_a_broker_that_gives_no_record_and_a_missing_topic_are_errors(
    brokers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_tail, "_TIMEOUT_S", 0.0)
    topic = Topic([(NOW_MS, alive())])
    topic.ends_early = True
    with pytest.raises(BrokerUnreachableError, match="check that the brokers run"):
        read(topic, monkeypatch)

    @contextmanager
    def reading(*_: object) -> Iterator[tuple[Topic, dict[int, tuple[int, int]]]]:
        yield topic, {}

    monkeypatch.setattr(report_tail, "reading", reading)
    with pytest.raises(TopicMissingError, match="load the plugin"):
        newest_states(CONFIG)
