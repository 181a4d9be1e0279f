import socket
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from broker.errors import BrokerUnreachableError
from broker.kafka import tail
from broker.kafka.tail import TopicReader

START_MS = 1_000


class TwoPartitions:
    """A consumer of a topic: partition 0 holds offsets 3 to 9, the last two from START_MS on; partition 1 nothing."""

    def __init__(self, _: object) -> None:
        self.assigned: list[dict[int, int]] = []

    def list_topics(self, topic: str, _: float) -> SimpleNamespace:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=[0, 1])})

    def get_watermark_offsets(self, at: TopicPartition, _: float) -> tuple[int, int]:
        return (0, 0) if at.partition else (3, 10)

    def offsets_for_times(self, asked: list[TopicPartition], _: float) -> list[TopicPartition]:
        assert {at.offset for at in asked} == {START_MS}
        return [TopicPartition(at.topic, at.partition, OFFSET_END if at.partition else 8) for at in asked]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned.append({at.partition: at.offset for at in partitions})


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        (None, {0: OFFSET_BEGINNING, 1: OFFSET_BEGINNING}),
        (START_MS, {0: 8, 1: 0}),
    ],
)
def test_it_is_assigned_its_start_and_nothing_before(
    start: int | None, offsets: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers: list[TwoPartitions] = []

    def consumer(settings: object) -> TwoPartitions:
        consumers.append(TwoPartitions(settings))
        return consumers[-1]

    monkeypatch.setattr(tail, "Consumer", consumer)

    TopicReader({"bootstrap.servers": "kafka:9092"}, "events", start=start)

    assert consumers[0].assigned == [offsets]


def test_a_listener_that_does_not_answer_hints_at_its_security_settings_too() -> None:
    # As one with TLS or SASL does to a client without.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        servers = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BrokerUnreachableError, match="the listener's security settings and READ on the topic"):
            TopicReader({"bootstrap.servers": servers}, "produce-events", timeout_s=0.2)
