"""A library, then SERVERS USER PASSWORD TOPIC CLIENT_ID COUNT: so many make a producer per message.

Prints their counts of deliveries. It runs in the environment of its library, so it imports nothing of ours.
"""

import asyncio
import sys
import threading
import time

GIVE_UP_S = 120


def by_confluent_kafka(settings: dict) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": settings["servers"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": settings["user"],
            "sasl.password": settings["password"],
            "client.id": settings["client_id"],
            "enable.idempotence": True,
            "log_level": 0,
        }
    )
    producer.produce(settings["topic"], b"one order")
    if producer.flush(GIVE_UP_S):
        raise TimeoutError


def of_kafka_python(settings: dict) -> dict:
    """Settings that kafka-python and aiokafka share."""
    return {
        "bootstrap_servers": settings["servers"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": settings["user"],
        "sasl_plain_password": settings["password"],
        "client_id": settings["client_id"],
        "enable_idempotence": True,
    }


def by_kafka_python(settings: dict) -> None:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    try:
        producer = KafkaProducer(**of_kafka_python(settings))
        try:
            producer.send(settings["topic"], b"one order").get(GIVE_UP_S)
        finally:
            producer.close()
    except KafkaError as error:
        raise TimeoutError from error


async def by_aiokafka(settings: dict, delivered: list[int], number: int) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    while True:
        producer = AIOKafkaProducer(**of_kafka_python(settings))
        try:
            await producer.start()
            await producer.send_and_wait(settings["topic"], b"one order")
            delivered[number] += 1
        except KafkaError as error:
            print(f"failed {error!r}", flush=True)
        finally:
            await producer.stop()


async def all_by_aiokafka(settings: dict, delivered: list[int]) -> None:
    await asyncio.gather(*(by_aiokafka(settings, delivered, number) for number in range(len(delivered))))


def main() -> None:
    library, servers, user, password, topic, client_id, count = sys.argv[1:]
    settings = {"servers": servers, "user": user, "password": password, "topic": topic, "client_id": client_id}
    delivered = [0] * int(count)

    def run(number: int) -> None:
        send = {"confluent-kafka": by_confluent_kafka, "kafka-python": by_kafka_python}[library]
        while True:
            try:
                send(settings)
                delivered[number] += 1
            except TimeoutError as error:
                print(f"failed {error.__cause__!r}", flush=True)

    if library == "aiokafka":
        threading.Thread(target=lambda: asyncio.run(all_by_aiokafka(settings, delivered)), daemon=True).start()
    else:
        for number in range(len(delivered)):
            threading.Thread(target=run, args=(number,), daemon=True).start()
    while True:
        time.sleep(0.05)
        print(delivered, flush=True)


if __name__ == "__main__":
    main()
