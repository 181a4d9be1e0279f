"""Producers of a user that come and go, as a process: KIND SERVERS USER PASSWORD TOPIC. SIGKILL ends it.

Kinds: `librdkafka`, `kafka-python`, and `copy`, which consumes what all write and produces it in transactions.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from confluent_kafka import Consumer, KafkaException, Message, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

PARTITIONS = 12
_TIMEOUT_S = 30.0


def sasl(servers: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def librdkafka(settings: dict[str, str], topic: str) -> None:
    user = settings["sasl.username"]
    for number in count():
        identity = {"transactional.id": f"{user}-{number % 5}"} if number % 2 else {"enable.idempotence": "true"}
        producer = Producer({**settings, **identity, "log_level": 0, "linger.ms": 0})
        with suppress(KafkaException):
            if number % 2:
                producer.init_transactions(_TIMEOUT_S)
                producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(topic, user.encode(), partition=partition)
            producer.flush(_TIMEOUT_S)
            if number % 2:
                producer.commit_transaction(_TIMEOUT_S)
        time.sleep(0.2)


def kafka_python(settings: dict[str, str], topic: str) -> None:
    user = settings["sasl.username"]
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": settings["sasl.password"],
    }
    while True:
        with suppress(KafkaError):
            producer = KafkaProducer(bootstrap_servers=settings["bootstrap.servers"].split(","), **login)
            for partition in range(PARTITIONS):
                producer.send(topic, user.encode(), partition=partition)
            producer.flush(_TIMEOUT_S)
            producer.close(1)
        time.sleep(0.2)


def copy(settings: dict[str, str], topic: str) -> None:
    """Consume, transform, produce: offsets are committed within each transaction."""
    user = settings["sasl.username"]
    for number in count():
        consumer = Consumer({**settings, "group.id": user, "enable.auto.commit": "false", "log_level": "0"})
        consumer.subscribe([topic])
        producer = Producer({**settings, "transactional.id": f"{user}-{number % 3}", "log_level": 0})
        with suppress(KafkaException):
            producer.init_transactions(_TIMEOUT_S)
            for messages in _batches(consumer):
                producer.begin_transaction()
                for message in messages:
                    producer.produce(f"{topic}-copy", user.encode(), partition=int(message.partition() or 0))
                places = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), _TIMEOUT_S)
                producer.commit_transaction(_TIMEOUT_S)
        consumer.close()


def _batches(consumer: Consumer) -> Iterator[list[Message]]:
    for _ in range(20):
        messages = [message for message in consumer.consume(50, 1.0) if message.error() is None]
        if messages:
            yield messages


if __name__ == "__main__":
    kind, servers, user, password, topic = sys.argv[1:]
    {"librdkafka": librdkafka, "kafka-python": kafka_python, "copy": copy}[kind](sasl(servers, user, password), topic)
