from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import ClusterRequestError
from broker.kafka.producers import (
    PARTITIONS_PER_REQUEST,
    ProducersAdmin,
    held_ids,
)
from wire.topics import PRODUCE_EVENTS

NOT_LEADER, NO_RIGHT, UNKNOWN = 6, 29, 3


class Cluster(ProducersAdmin):
    """Brokers with a PID of each partition, `100 * leader + number`; `errors` are given once per partition."""

    def __init__(self, led: dict[int, list[tuple[str, int]]]) -> None:
        self.led, self.errors = led, dict[tuple[str, int], int]()
        self.asked: list[tuple[int, list[tuple[str, int]]]] = []
        self.hidden: str | None = None
        self.next_leaders: list[dict[int, list[tuple[str, int]]]] = []

    def hidden_topic(self) -> str | None:
        return self.hidden

    def partitions_by_leader(self) -> dict[int, list[tuple[str, int]]]:
        found = self.led
        if self.next_leaders:
            self.led = self.next_leaders.pop(0)
        return found

    def producers(self, broker_id: int, partitions: Sequence[tuple[str, int]]) -> Any:
        self.asked.append((broker_id, list(partitions)))
        topics = []
        for name, number in partitions:
            error = self.errors.pop((name, number), 0)
            ids = [] if error else [SimpleNamespace(producer_id=100 * broker_id + number)]
            about = SimpleNamespace(partition_index=number, error_code=error, active_producers=ids)
            topics.append(SimpleNamespace(name=name, partitions=[about]))
        return SimpleNamespace(topics=topics)


def ids(cluster: Cluster) -> list[int]:
    return sorted(each for part in held_ids(cluster, lambda _: None) for each in part)


def test_each_partition_is_asked_for_once_in_portions_of_its_leader() -> None:
    many = [("orders", number) for number in range(2 * PARTITIONS_PER_REQUEST + 1)]
    cluster = Cluster({1: many, 2: [("bills", 0), ("__consumer_offsets", 1), (PRODUCE_EVENTS, 2)]})

    assert ids(cluster) == [100 + number for _, number in many] + [200, 201]
    assert sorted(each for _, portion in cluster.asked for each in portion if each[0] == "orders") == many
    assert max(len(portion) for _, portion in cluster.asked) == PARTITIONS_PER_REQUEST


def test_a_partition_that_moves_meanwhile_is_asked_for_at_its_new_leader() -> None:
    cluster = Cluster({1: [("orders", 0), ("orders", 1)]})
    cluster.errors = {("orders", 1): NOT_LEADER}
    cluster.next_leaders = [{1: [("orders", 0)], 2: [("orders", 1)]}]

    assert ids(cluster) == [100, 201]
    assert cluster.asked == [(1, [("orders", 0), ("orders", 1)]), (2, [("orders", 1)])]


def test_a_partition_without_a_leader_that_gets_one_is_asked_for() -> None:
    cluster = Cluster({-1: [("orders", 0)], 1: [("orders", 1)]})
    cluster.next_leaders = [{1: [("orders", 0), ("orders", 1)]}]

    assert ids(cluster) == [100, 101]


def test_a_partition_that_stays_without_a_leader_makes_the_answer_void() -> None:
    with pytest.raises(ClusterRequestError, match="orders-0 has no leader"):
        ids(Cluster({-1: [("orders", 0)], 1: [("orders", 1)]}))


def test_a_topic_that_is_deleted_meanwhile_is_none() -> None:
    cluster = Cluster({1: [("orders", 0), ("orders", 1)]})
    cluster.errors = {("orders", 1): UNKNOWN}

    assert ids(cluster) == [100]


def test_a_topic_that_may_not_be_read_or_seen_makes_the_answer_void() -> None:
    unread, unseen = Cluster({1: [("orders", 0)]}), Cluster({1: []})
    unread.errors, unseen.hidden = {("orders", 0): NO_RIGHT}, "bills"

    with pytest.raises(ClusterRequestError, match=r"producers of topic orders .*grant READ"):
        ids(unread)
    with pytest.raises(ClusterRequestError, match="may not see topic bills"):
        ids(unseen)
