"""A new idempotent producer of aiokafka that sends a message: SERVERS USER PASSWORD TOPIC.

Lines: "started" once `start()` has returned, and "delivered" and when, in milliseconds since the epoch.
"""

import asyncio
import sys
import time


async def main(servers: str, user: str, password: str, topic: str) -> None:
    # What collects the tests imports this file, where there is no aiokafka.
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=password,
        enable_idempotence=True,
    )
    await producer.start()
    print("started", flush=True)
    await producer.send_and_wait(topic, b"waited")
    print("delivered", round(time.time() * 1000), flush=True)
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
