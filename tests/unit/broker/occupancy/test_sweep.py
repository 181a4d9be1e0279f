from collections.abc import Collection, Sequence
from types import SimpleNamespace

import pytest

from broker.errors import BrokerUnreachableError
from broker.kafka import producers
from broker.kafka.client import with_retries
from broker.kafka.producers import ProducersAdmin
from broker.occupancy.sweep import Unanswered, sweep
from lifecycle.occupancy import Placement

NOT_AUTHORIZED = 29


class MadeUpBrokers(ProducersAdmin):
    """Each partition holds its own number as producer id; some brokers are down, some topics secret."""

    def __init__(self, down: Collection[int] = (), secret: Collection[str] = ()) -> None:
        self.down, self.secret = down, secret
        self.asked: list[tuple[int, list[tuple[str, int]]]] = []

    def producers(self, broker_id: int, partitions: Sequence[tuple[str, int]]) -> SimpleNamespace:
        self.asked.append((broker_id, list(partitions)))
        if broker_id in self.down:
            msg = "no broker answers"
            raise BrokerUnreachableError(msg)
        return SimpleNamespace(
            topics=[
                SimpleNamespace(name=topic, partitions=[self._partition(topic, number)]) for topic, number in partitions
            ]
        )

    def _partition(self, topic: str, number: int) -> SimpleNamespace:
        producer = SimpleNamespace(producer_id=number, last_timestamp=1000, current_txn_start_offset=number - 1)
        code = NOT_AUTHORIZED if topic in self.secret else 0
        return SimpleNamespace(partition_index=number, error_code=code, active_producers=[producer])


def placements(count: int, topic: str = "orders", replicas: tuple[int, ...] = (1, 2)) -> list[Placement]:
    return [Placement(topic, number, replicas[0], replicas, frozenset(replicas)) for number in range(count)]


def test_leaders_and_followers_are_asked_in_portions_and_open_transactions_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PARTITIONS_PER_REQUEST", 2)
    brokers = MadeUpBrokers()

    found = sweep(brokers, placements(5), [1, 2], wait=lambda _: None)

    assert [(broker, len(portion)) for broker, portion in brokers.asked] == [
        (1, 2),
        (1, 2),
        (1, 1),
        (2, 2),
        (2, 2),
        (2, 1),
    ]
    assert [(each.broker_id, each.partition, each.is_leader) for each in found.replicas] == [
        (broker, number, broker == 1) for broker in (1, 2) for number in range(5)
    ]
    assert [bool(each.in_transaction[0]) for each in found.replicas[:5]] == [False, True, True, True, True]
    assert found.replicas[3].producer_ids.tolist() == [3]


def test_it_waits_between_requests_and_tells_how_far_it_is() -> None:
    waits: list[float] = []
    progress: list[tuple[float, float]] = []

    found = sweep(
        MadeUpBrokers(),
        placements(50),
        [1, 2],
        requests_per_second=4,
        progress=lambda *numbers: progress.append(numbers),
        wait=waits.append,
    )

    assert found.requests == 6
    assert waits == [0.25] * 5
    assert progress == [(done, 100) for done in (20, 40, 50, 70, 90, 100)]


def test_replicas_on_brokers_that_are_down_are_not_asked_about() -> None:
    brokers = MadeUpBrokers()
    found = sweep(brokers, placements(3), [2], wait=lambda _: None)
    assert {broker for broker, _ in brokers.asked} == {2}
    assert (len(found.replicas), found.unanswered) == (3, [])


def test_a_broker_that_does_not_answer_is_asked_once_and_all_its_replicas_are_named() -> None:
    brokers = MadeUpBrokers(down={1})
    progress: list[tuple[float, float]] = []

    found = sweep(
        brokers, placements(45), [1, 2], progress=lambda *numbers: progress.append(numbers), wait=lambda _: None
    )

    assert [broker for broker, _ in brokers.asked] == [1, 2, 2, 2]
    assert len(found.unanswered) == 45
    assert found.unanswered[44] == Unanswered(1, "orders", 44, "no broker answers")
    assert len(found.replicas) == 45
    assert progress[-1] == (90, 90)


def test_a_partition_that_is_refused_does_not_spoil_the_others() -> None:
    brokers = MadeUpBrokers(secret={"secret"})

    found = sweep(brokers, [*placements(1), *placements(1, "secret")], [1], wait=lambda _: None)

    assert [each.topic for each in found.replicas] == ["orders"]
    assert found.unanswered == [Unanswered(1, "secret", 0, "TopicAuthorizationFailedError: READ on it is needed")]


@pytest.mark.parametrize(("failures", "answer"), [(0, "told"), (5, "told"), (6, None)])
def test_a_question_that_met_a_broker_just_dead_is_asked_again_but_not_for_ever(
    failures: int, answer: str | None
) -> None:
    attempts: list[int] = []
    waits: list[float] = []

    def ask() -> str:
        attempts.append(1)
        if len(attempts) <= failures:
            msg = "no broker answers"
            raise BrokerUnreachableError(msg)
        return "told"

    if answer is None:
        with pytest.raises(BrokerUnreachableError):
            with_retries(ask, waits.append)
    else:
        assert with_retries(ask, waits.append) == answer
    assert waits == [1.0] * min(failures, 5)
