"""Who is asked for the producer ids that a cluster holds, and what makes the answer void."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster import cluster_admin
from broker.cluster.producers_admin import (
    PARTITIONS_PER_REQUEST,
    REQUESTS_PER_SECOND,
    ProducersAdmin,
    held_ids,
    led_ids,
)
from broker.errors import ClusterRequestError
from wire.topics import PRODUCE_EVENTS

NOT_LEADER, NO_RIGHT, UNKNOWN = 6, 29, 3
COORDINATOR_LOADS, NO_CLUSTER_RIGHT = 14, 31
BROKER_ID = 1


class Cluster(ProducersAdmin):
    """Brokers with a PID of each partition, `100 * leader + number`; `errors` are given once per partition."""

    def __init__(self, led: dict[int, list[tuple[str, int]]]) -> None:
        self.led, self.errors = led, dict[tuple[str, int], int]()
        self.asked: list[tuple[int, list[tuple[str, int]]]] = []
        self.hidden: str | None = None
        self.with_leaderless = True
        self.next_leaders: list[dict[int, list[tuple[str, int]]]] = []

    def hidden_topic(self) -> str | None:
        return self.hidden

    def partitions_by_leader(self, *, with_leaderless: bool = False) -> dict[int, list[tuple[str, int]]]:
        assert with_leaderless == self.with_leaderless
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


# What one broker leads


def test_one_broker_is_asked_for_what_it_leads_in_portions_with_a_pause_after_each() -> None:
    led, asked_before, pauses = [("orders", number) for number in range(45)], list[int](), list[float]()
    cluster = Cluster({BROKER_ID: [(PRODUCE_EVENTS, 0), *led], 2: [("bills", 0)]})
    cluster.with_leaderless = False

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        asked_before.append(len(cluster.asked))

    found = [each for part in led_ids(cluster, BROKER_ID, wait) for each in part]

    assert found == [100 * BROKER_ID + number for _, number in led]
    assert cluster.asked == [(BROKER_ID, led[:20]), (BROKER_ID, led[20:40]), (BROKER_ID, led[40:])]
    assert (pauses, asked_before) == ([1 / REQUESTS_PER_SECOND] * 3, [1, 2, 3])


def test_a_partition_that_moves_away_meanwhile_is_not_counted() -> None:
    cluster = Cluster({BROKER_ID: [("orders", 0), ("orders", 1)]})
    cluster.with_leaderless, cluster.errors = False, {("orders", 0): NOT_LEADER}

    assert list(led_ids(cluster, BROKER_ID, lambda _: None)) == [[101]]


# Single requests


class Client:
    """A fake of kafka-python's client: notes what it is asked and gives one answer."""

    def __init__(self, answer: object) -> None:
        self.answer, self.asked = answer, list[tuple[tuple[Any, ...], dict[str, Any]]]()

    def ask(self, *arguments: object) -> object:
        self.asked.append((arguments, {}))
        return self.answer

    def alter_configs(self, *arguments: object, **options: object) -> object:
        self.asked.append((arguments, options))
        return self.answer


@pytest.fixture
def admin_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Client], ProducersAdmin]:
    def connected(client: Client) -> ProducersAdmin:
        monkeypatch.setattr(cluster_admin, "RawAdmin", lambda **_: client)
        monkeypatch.setattr(cluster_admin, "_probe", lambda *_: None)
        return ProducersAdmin({"bootstrap_servers": ["broker:9092"]})

    return connected


def id_answer(error_code: int, producer_id: int = -1) -> Client:
    return Client(SimpleNamespace(error_code=error_code, producer_id=producer_id))


def test_the_next_id_is_taken_without_a_transactional_id_which_would_need_a_right_and_stay(
    admin_of: Callable[[Client], ProducersAdmin],
) -> None:
    client = id_answer(0, 5003)

    assert admin_of(client).next_producer_id(BROKER_ID) == 5003

    ((request, broker_id), _) = client.asked[0]
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == (None, -1, -1)
    assert broker_id == BROKER_ID


def test_a_broker_that_has_no_id_right_now_is_no_failure_and_one_that_refuses_is(
    admin_of: Callable[[Client], ProducersAdmin],
) -> None:
    assert admin_of(id_answer(COORDINATOR_LOADS)).next_producer_id(BROKER_ID) is None

    with pytest.raises(ClusterRequestError, match=r"gives no producer id \(ClusterAuth.*grant WRITE"):
        admin_of(id_answer(NO_CLUSTER_RIGHT)).next_producer_id(BROKER_ID)
