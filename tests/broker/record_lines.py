"""Records tests/unit/broker/broker_lines.jsonl: `python tests/broker/record_lines.py` (needs a JDK).

Each line of the file is one the broker wrote, byte for byte. The producers, in order: alice, plainly; mallory, with a
client.id that imitates a request of alice; alice, in a transaction with a hostile transactional.id; alice with Kafka's
own client, plainly and in a transaction; then the broker is killed and replays its log on starting again.
"""

import subprocess
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from broker.jars.jar_sets import kafka_classpath
from broker.local.local_broker import DEFAULT_USERS, LocalBroker

LINES = Path(__file__).parents[1] / "unit" / "broker" / "broker_lines.jsonl"

HOSTILE_CLIENT_ID = (
    'x\n"q"\\, correlationId=1, headerVersion=2) -- {acks=-1,timeout=1,partitionSizes=[A:orders-0=1]} '
    "from connection c;securityProtocol:SASL_PLAINTEXT,principal:User:alice"
)
HOSTILE_TRANSACTIONAL_ID = "t\n's InitProducerIdRequest with result InitProducerIdResult(77,0,NONE) from client z."


def produce(settings: dict[str, str], transactional: bool = False) -> None:
    producer = Producer({"enable.idempotence": True, **settings})
    if transactional:
        producer.init_transactions()
        producer.begin_transaction()
    producer.produce("orders", b"value", partition=0)
    producer.flush()
    if transactional:
        producer.commit_transaction()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder)) as broker:
        alice, mallory = broker.client_config("alice"), broker.client_config("mallory")
        produce({**alice, "client.id": "alice-app"})
        produce({**mallory, "client.id": HOSTILE_CLIENT_ID})
        produce({**alice, "client.id": "alice-tx", "transactional.id": HOSTILE_TRANSACTIONAL_ID}, transactional=True)
        java_client = Path(__file__).with_name("ProduceByTopicId.java")
        java = ["java", "-cp", kafka_classpath(), str(java_client)]
        subprocess.run([*java, broker.bootstrap_servers, "alice", DEFAULT_USERS["alice"]], check=True)
        broker.kill()
        broker.start()
        LINES.write_bytes(broker.log_file.read_bytes())


if __name__ == "__main__":
    main()
