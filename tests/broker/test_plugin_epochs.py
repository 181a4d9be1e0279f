"""Producer ids that a broker hands out at EndTxn when epochs run out (KIP-890), without INIT_PRODUCER_ID."""

from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, ProduceRequest

from broker.kafka.client import RawAdmin
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import events_of, new_topic, transactional_producer, wait_until
from tests.kits.hostile_kit import batch

MAX_EPOCHS = 2**15 - 2
CONCURRENT_TRANSACTIONS = 51


class Transactions:
    """A transactional producer by hand, by transaction version 2."""

    def __init__(self, broker: LocalBroker, user: str, topic: str) -> None:
        config = broker.client_config(user)
        self._admin = RawAdmin(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=config["sasl.password"],
        )
        self._broker_id, self._topic = broker.broker_id, topic
        self.transactional_id = f"{user}-tx"
        self.producer_id, self.epoch = -1, -1

    def close(self) -> None:
        self._admin.close()

    def init(self) -> int:
        """Get the next epoch; return the error."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=60_000,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )
        answer: Any = self._admin.ask(request, self._broker_id)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def commits_a_batch(self) -> bool:
        """Produce a batch, which joins the transaction by itself, and commit; take the next id and epoch.

        Return whether the broker did both. While it ends the transaction before, a client asks again.
        """
        records = batch(self.producer_id, self.epoch, transactional=True)
        data = ProduceRequest.TopicProduceData
        partition = data.PartitionProduceData(index=0, records=records)
        produce = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[data(name=self._topic, partition_data=[partition])],
            min_version=12,
            max_version=12,
        )
        answer: Any = self._admin.ask(produce, self._broker_id)
        error = answer.responses[0].partition_responses[0].error_code
        if error == CONCURRENT_TRANSACTIONS:
            return False
        assert error == 0, answer
        ended: Any = self._admin.ask(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=True,
                min_version=5,
            ),
            self._broker_id,
        )
        if ended.error_code == CONCURRENT_TRANSACTIONS:
            return False
        assert ended.error_code == 0, ended
        self.producer_id, self.epoch = ended.producer_id, ended.producer_epoch
        return True


@pytest.mark.slow
def test_an_id_that_a_commit_hands_out_is_its_users_and_survives_a_restart(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        topic = new_topic(broker, "orders")
        transactional_producer(broker.client_config("admin"), "first")
        alice = Transactions(broker, "alice", topic)
        try:
            wait_until(lambda: alice.init() == 0, "alice has an id")
            first = alice.producer_id
            while alice.epoch < MAX_EPOCHS - 3:
                assert alice.init() == 0
            used = []
            for _ in range(6):
                used.append((alice.producer_id, alice.epoch))
                wait_until(alice.commits_a_batch, "a transaction")
            second = alice.producer_id
            alice.producer_id, alice.epoch = -1, -1
            wait_until(lambda: alice.init() == 0, "alice restarts")
        finally:
            alice.close()
        assert alice.producer_id == second != first
        assert alice.epoch > 2
        assert used == [*((first, MAX_EPOCHS - back) for back in (3, 2, 1, 0)), (second, 0), (second, 1)]
        events = events_of(broker, first, second)
    assert {(event.principal, event.transactional_id) for event in events} == {("User:alice", "alice-tx")}
