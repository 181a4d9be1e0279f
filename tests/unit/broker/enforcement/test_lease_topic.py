"""Tests of the lease topic with a fake of its log; tests/attack/test_leases_end.py has the real one."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from broker.enforcement.model import Lease, LeaseRecord, ReleaseOrder, Target
from broker.enforcement.store.lease_topic import LeaseTopic
from broker.errors import BrokerUnreachableError, LeaseStoreError
from broker.kafka.quota_entity import QuotaEntity

NOW_MS = 1_800_000_000_000
USER = Target("request_percentage", QuotaEntity("m"))
HOLD = Target("hold", QuotaEntity("m"))


class Record:
    def __init__(
        self, key: bytes | None, value: bytes | None, at_ms: int = NOW_MS, kind: int = TIMESTAMP_LOG_APPEND_TIME
    ) -> None:
        self.key, self.value, self.timestamp = lambda: key, lambda: value, lambda: (kind, at_ms)


class Log:
    """The topic: producers append to it, and readers follow it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.error: KafkaError | None = None
        self.is_readable = True

    def write(self, key: str | bytes | None, value: str | bytes | None) -> None:
        self.records.append(
            Record(key.encode() if isinstance(key, str) else key, value.encode() if isinstance(value, str) else value)
        )

    # As a producer.

    def produce(self, _topic: str, *, key: bytes, value: bytes | None, partition: int, on_delivery: Any) -> None:
        assert partition == 0
        if self.error is None:
            self.records.append(Record(key, value))
        on_delivery(self.error, None)

    def purge(self) -> None: ...

    def flush(self, _timeout_s: float) -> int:
        return 0


class Reader:
    def __init__(self, log: Log) -> None:
        if not log.is_readable:
            msg = "no broker answers"
            raise BrokerUnreachableError(msg)
        self._log, self._next = log, 0

    def poll(self) -> list[Record]:
        found = self._log.records[self._next :]
        self._next += len(found)
        return found

    read_to_end = poll

    def close(self) -> None: ...


@pytest.fixture
def log() -> Iterator[Log]:
    log, room = Log(), "broker.enforcement.store.lease_topic"
    with patch(f"{room}.Producer", lambda _: log), patch(f"{room}.TopicReader", lambda *_, **__: Reader(log)):
        yield log


@pytest.fixture
def topic(log: Log) -> LeaseTopic:
    return another()


def another() -> LeaseTopic:
    return LeaseTopic({"bootstrap.servers": "b1:9092"})


def lease(lease_id: str = "ab12", target: Target = USER, **values: Any) -> LeaseRecord:
    values = {"value": None if target == HOLD else 0.01, "set_ms": NOW_MS} | values
    return LeaseRecord(NOW_MS, Lease(lease_id, "User:m", target, NOW_MS + 60_000, "d", **values), "12 PIDs", "host/1")


@pytest.mark.parametrize(
    "record",
    [
        lease(previous=50.0, revision=7, state="restoring"),
        lease(target=Target("request_percentage", QuotaEntity("m", 'a b\n"ü;*'))),
        lease(target=Target("connection_creation_rate", QuotaEntity(ip="::1")), value=1.0),
        lease(target=HOLD),
        ReleaseOrder(NOW_MS, "User:CN=m,O=ü", NOW_MS + 1, "released by order", "release"),
        ReleaseOrder(NOW_MS, None, NOW_MS + 1, "all released by order", "release"),
    ],
    ids=str,
)
def test_a_record_comes_back_as_it_was_written(topic: LeaseTopic, record: LeaseRecord | ReleaseOrder) -> None:
    topic.append([record])
    reader = another()
    assert (topic.read(), reader.read(again=True), reader.bad_records) == ([record], [record], 0)


def test_the_newest_record_of_each_lease_counts_and_of_each_principal_s_order(topic: LeaseTopic) -> None:
    orders = [ReleaseOrder(NOW_MS, name, NOW_MS + 1) for name in (None, "User:m", "User:n")]
    newer = ReleaseOrder(NOW_MS + 5, "User:m", NOW_MS + 9)
    first, second, other = lease(), lease(state="in_force", revision=1), lease("cd34", HOLD)
    topic.append([*orders, first, other])
    assert len(topic.read()) == 5
    topic.append([second, newer])
    assert topic.read() == [orders[0], newer, orders[2], second, other]


def test_a_lease_that_is_dropped_is_gone_for_all_readers(topic: LeaseTopic) -> None:
    follower = another()
    topic.append([lease(), lease("cd34")])
    assert len(follower.read()) == 2
    topic.drop(["ab12"])
    assert follower.read() == another().read() == [lease("cd34")]


def test_an_unacknowledged_record_is_an_error(topic: LeaseTopic, log: Log) -> None:
    log.error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(LeaseStoreError, match="grant this user WRITE"):
        topic.append([lease()])
    with pytest.raises(LeaseStoreError, match="grant this user WRITE"):
        topic.drop(["ab12"])


def test_a_write_that_the_client_itself_refuses_is_the_same_error(topic: LeaseTopic, log: Log) -> None:
    refused = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with patch.object(log, "produce", side_effect=refused), pytest.raises(LeaseStoreError, match="WRITE on the topic"):
        topic.append([lease()])


def test_an_unreadable_topic_is_an_error_and_is_read_again_later(topic: LeaseTopic, log: Log) -> None:
    topic.append([lease()])
    log.is_readable = False
    with pytest.raises(LeaseStoreError, match="can't read leases"):
        topic.read()
    log.is_readable = True
    assert topic.read() == [lease()]


def test_probes_of_the_clock_and_what_others_write_are_no_records(topic: LeaseTopic, log: Log) -> None:
    for key in (None, b"", b"clock", b"leases", b"hold/User:m", b"\xff\xfe"):
        log.write(key, b"{}")
    assert (topic.read(), topic.bad_records) == ([], 0)


def test_the_latest_time_that_the_brokers_gave_a_record_is_known(log: Log, topic: LeaseTopic) -> None:
    # given
    assert topic.seen_ms == 0
    log.records += [Record(b"clock", b"", NOW_MS + 5), Record(b"lease/ab12", None, NOW_MS + 9)]
    log.records += [Record(b"clock", b"", NOW_MS - 7), Record(b"x", b"", NOW_MS + 70, TIMESTAMP_CREATE_TIME)]

    # when
    topic.read(again=True)

    # then
    assert topic.seen_ms == NOW_MS + 9


def forged(**values: Any) -> dict[str, Any]:
    """A lease's record as JSON, with these fields of the lease changed."""
    record: dict[str, Any] = msgspec.to_builtins(lease())
    record["lease"] |= values
    return record


def target(lever: str, **entity: str) -> dict[str, Any]:
    return {"lever": lever, "entity": entity}


BAD_LEASES = {
    "another lease's": forged(lease_id="cd34"),
    "an unknown lever": forged(target=target("producer_byte_rate", user="m")),
    "an unknown state": forged(state="open"),
    "nobody": forged(target=target("request_percentage")),
    "everybody's client": forged(target=target("request_percentage", client_id="app")),
    "three entities": forged(target=target("request_percentage", user="m", client_id="app", ip="::1")),
    "a user's connections": forged(target=target("connection_creation_rate", user="m")),
    "requests of an address": forged(target=target("request_percentage", ip="::1")),
    "a client's hold": forged(target=target("hold", user="m", client_id="app"), value=None),
    "a hold with a value": forged(target=target("hold", user="m")),
    "a quota without a value": forged(value=None),
    "an end that is no time": forged(until_ms=2**63 - 1),
    "an end before all time": forged(until_ms=-1),
    "a hold without an end": forged(target=target("hold", user="m"), value=None, until_ms=0),
    "set at no time": forged(set_ms=253_402_300_800_000),
    "a number for words": forged(principal=7),
    "nothing": None,
    "no lease": {"recorded_at_ms": 1, "reason": ""},
    "an order": msgspec.to_builtins(ReleaseOrder(NOW_MS, "User:m", NOW_MS + 1)),
}


@pytest.mark.parametrize("value", BAD_LEASES.values(), ids=BAD_LEASES)
def test_a_lease_that_no_enforcer_can_have_written_is_counted_and_passed_over(
    topic: LeaseTopic, log: Log, value: object
) -> None:
    log.write("lease/ab12", msgspec.json.encode(value))
    topic.append([lease("cd34")])
    assert (topic.read(), topic.bad_records) == ([lease("cd34")], 1)


@pytest.mark.parametrize("lease_id", ["", "AB12", "a b", "ab12:1", "a" * 33])
def test_a_hold_that_could_not_be_told_from_one_by_hand_is_passed_over(
    topic: LeaseTopic, log: Log, lease_id: str
) -> None:
    value = forged(lease_id=lease_id, target=target("hold", user="m"), value=None)
    log.write(f"lease/{lease_id}", msgspec.json.encode(value))
    assert (topic.read(), topic.bad_records) == ([], 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("release", '{"recorded_at_ms":1,"principal":"User:m","until_ms":2}'),
        ("release/User:m", '{"recorded_at_ms":1,"principal":null,"until_ms":2}'),
        ("release/User:m", '{"recorded_at_ms":1,"principal":"User:n","until_ms":2}'),
        ("release/User:m", '{"recorded_at_ms":1,"principal":"User:m","until_ms":9223372036854775807}'),
        ("release/User:m", '{"recorded_at_ms":-1,"principal":"User:m","until_ms":2}'),
        ("release/User:m", '{"principal":"User:m"}'),
        ("release", "null"),
        ("release", "{"),
        ("release", "\x00" * 100),
        ("lease/1", '{"recorded_at_ms":' + "9" * 5000 + "}"),
        ("lease/1", '{"q":' * 100_000),
        ("lease/1", b"\xff\xfe"),
        (b"release/\xed\xa0\xbd", b"null"),
    ],
    ids=range(13),
)
def test_invalid_records_are_counted_and_skipped(
    topic: LeaseTopic, log: Log, key: str | bytes, value: str | bytes
) -> None:
    topic.append([lease()])
    log.write(key, value)
    assert (topic.read(), topic.bad_records) == ([lease()], 1)


def test_a_bad_record_takes_no_good_one_s_place(topic: LeaseTopic, log: Log) -> None:
    topic.append([lease()])
    log.write("lease/ab12", msgspec.json.encode(forged(until_ms=-1)))
    assert topic.read() == [lease()]
