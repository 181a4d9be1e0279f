import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from broker.kafka.client import RawAdmin
from broker.kafka.config import KafkaConfig
from broker.local.local_broker import LocalBroker
from jobs.demo.processes import Child
from lifecycle.churn import Churn
from tables.query.churn_clients import clients_of
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.store.path_tables import create_missing, table_path
from tests.kits.broker_kit import LIMIT_S, new_topic, produce, wait_until
from tests.kits.enforce_kit import EnforcerProcess, enforcing, quotas_of
from tests.kits.hold_kit import LOADING

HOARD = 10_000
QUOTA = 20.0
PAUSE_S = 0.25
PARTITIONS = 10


class Habit(threading.Thread):
    """A client that goes on until the block ends; counts its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()
        self.sent = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ended.wait(PAUSE_S):
                self.sent += self.send()
        except BaseException as error:
            self.error = error

    def send(self) -> int:
        raise NotImplementedError

    def rate(self, seconds: float) -> float:
        """Messages a second, over the next so many."""
        before = self.sent
        self.ended.wait(seconds)
        return (self.sent - before) / seconds

    def __enter__(self) -> "Habit":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()
        if self.error:
            raise self.error


class Hoarder(Habit):
    """Has its producer ids beforehand, and uses ten more of them in each request."""

    def __init__(self, broker: LocalBroker, topic: str) -> None:
        super().__init__()
        self._admin = RawAdmin(**KafkaConfig(broker.client_config("hoarder")).kafka_python(), client_id="hoarder")
        self._topic, self._broker_id = topic, broker.broker_id
        self._hoard: list[int] = []

    def _ask(self) -> int:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        answer: Any = self._admin.ask(request)
        while answer.error_code == LOADING:
            # Its next block of ids is on the way.
            answer = self._admin.ask(request)
        assert answer.error_code == 0
        return int(answer.producer_id)

    def send(self) -> int:
        if not self._hoard:
            self._hoard = [self._ask() for _ in range(HOARD)]
        used, self._hoard = self._hoard[:PARTITIONS], self._hoard[PARTITIONS:]
        data = [
            ProduceRequest.TopicProduceData.PartitionProduceData(index=number, records=_batch(pid))
            for number, pid in enumerate(used)
        ]
        topics = [ProduceRequest.TopicProduceData(name=self._topic, partition_data=data)]
        # From version 13 on topics are named by their ids.
        request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=topics, max_version=9)
        (answer,) = self._admin.ask(request, self._broker_id).responses
        assert [each.error_code for each in answer.partition_responses] == [0] * len(used)
        return len(used)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._admin.close()


def _batch(pid: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, pid, 0, 0, 1000)
    builder.append(0, time.time_ns() // 1_000_000, b"", b"value", [])
    return bytes(builder.build())


class NewTransactionalIds(Habit):
    """What Flink's naming INCREMENTING does at each checkpoint."""

    def __init__(self, broker: LocalBroker, topic: str) -> None:
        super().__init__()
        self._settings = {**broker.client_config("flink"), "client.id": "flink-sink", "log_level": 0}
        self._topic = topic

    def send(self) -> int:
        producer = Producer({**self._settings, "transactional.id": f"sink-0-{self.sent}"})
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        producer.produce(self._topic, b"value", partition=0)
        producer.commit_transaction(LIMIT_S)
        return 1


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    users = {name: f"{name}-secret" for name in ("hoarder", "flink")}
    with LocalBroker(tmp_path / "kafka", users, jars=jars, holds=True) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("habit", [Hoarder, NewTransactionalIds])
def test_producer_ids_that_a_hold_does_not_reach_bring_the_client_quota(
    broker: LocalBroker, tmp_path: Path, habit: type[Hoarder] | type[NewTransactionalIds]
) -> None:
    user = "hoarder" if habit is Hoarder else "flink"
    tables, topic = tmp_path / "tables", new_topic(broker, "orders", PARTITIONS)
    create_missing(str(tables))
    set_quota(str(tables), QuotaEntry(None, QUOTA, datetime.now(timezone.utc), "test"))
    broker.wait_for_plugin()
    servers = ["--bootstrap-servers", broker.admin_servers]
    stream = ["-m", "jobs", "stream", *servers, "--tables", str(tables), "--checkpoint", str(tmp_path / "checkpoint")]
    # A decision each ten seconds instead of each minute: two of them tell that it goes on.
    stream += ["--trigger", "1 second", "--min-throttle-seconds", "10"]
    with (
        Child("stream", stream, tmp_path / "stream.log"),
        enforcing(broker, tables, "--lever", "hold", "--apply") as enforcer,
    ):
        wait_until(lambda: is_counted(broker, topic, tables), "the stream runs")
        with habit(broker, topic) as client:
            enforcer.wait_for("throttled", "its known PIDs keep working")
            free = client.rate(5)
            enforcer.wait_for("throttled", "refused PIDs keep arriving")
            wait_until(lambda: client.error is not None or bool(quotas_of(broker)), "it has the client quota")
            print(f"{user}: {free:.1f}/s under the hold, {client.rate(20):.1f}/s with the quota")
            print("\n".join(each["why"] for each in enforcer.notices_of("throttled")))
            assert {entity.user for entity in quotas_of(broker)} == {user}
            assert f"pid-quota why User:{user}" in reason(enforcer)
            if habit is NewTransactionalIds:
                wait_until(lambda: diagnosis(tables, user) is Churn.NEW_TRANSACTIONAL_ID, "its habit is known")
    wait_until(lambda: quotas_of(broker) == {}, "the quota is taken back")


def is_counted(broker: LocalBroker, topic: str, tables: Path) -> bool:
    """Whether a producer of somebody else is in the tables."""
    produce(broker.admin_config(), topic)
    return bool(DeltaTable(table_path(str(tables), "producer_id_metrics")).to_pyarrow_table().num_rows)


def reason(enforcer: EnforcerProcess) -> str:
    return str(enforcer.notices_of("throttled", "refused PIDs keep arriving")[-1]["why"])


def diagnosis(tables: Path, user: str) -> Churn:
    (client,) = clients_of(str(tables), f"User:{user}", datetime.now(timezone.utc))
    return client.diagnosis.kind
