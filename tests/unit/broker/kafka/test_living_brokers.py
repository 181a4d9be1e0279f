"""Which brokers of an answer of `describe_cluster` are asked further questions."""

from broker.kafka.live_brokers import live_brokers


def test_brokers_that_are_down_are_left_out() -> None:
    brokers = [{"broker_id": 3, "is_fenced": False}, {"broker_id": 2, "is_fenced": True}, {"broker_id": 1}]
    assert live_brokers({"brokers": brokers}) == [1, 3]


def test_answers_of_brokers_before_kafka_2_8_name_ids_otherwise() -> None:
    assert live_brokers({"brokers": [{"node_id": 2}, {"node_id": 1}]}) == [1, 2]
