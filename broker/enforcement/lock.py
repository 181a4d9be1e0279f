"""The lock of the active enforcer: the only partition of a topic, which Kafka assigns to one member of a group.

If this member is killed, a standby takes over after the session timeout. Two active enforcers would restore wrong
values: each would take the other's client quota for the original value.
"""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from broker.errors import BrokerError, EnforcerLockError, LeaseStoreError
from broker.kafka.errors import name_of
from broker.kafka.topics import await_topic, ensure_topic
from wire.topics import ENFORCER_TOPIC

LOCK_PARTITION = 0
"""Only the consumer with this partition holds the lock, even if the topic has more partitions."""

SESSION_TIMEOUT_MS = 6_000
"""How long a killed enforcer keeps the lock. Brokers allow no less by default (`group.min.session.timeout.ms`)."""

_TIMEOUT_S = 10.0
_TRIES = 3
_PAUSE_S = 0.1
_CHECK_INTERVAL_S = 5.0
_CHECK_TIMEOUT_S = 1.0
_GONE = "UNKNOWN_TOPIC_OR_PART"


class EnforcerLock:
    """Membership in the enforcers' group. It is not thread-safe."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        ensure_enforcer_topic(settings)
        self._settings = dict(settings)
        self._held = False
        self.times_taken = 0
        self._next_check_s = time.monotonic() + _CHECK_INTERVAL_S
        self._consumer = Consumer(
            {
                **settings,
                "group.id": ENFORCER_TOPIC,
                "session.timeout.ms": str(SESSION_TIMEOUT_MS),
                "heartbeat.interval.ms": str(SESSION_TIMEOUT_MS // 6),
                # A hung enforcer must not keep the lock.
                "max.poll.interval.ms": "30000",
                "socket.timeout.ms": str(SESSION_TIMEOUT_MS),
                # Other strategies might move the partition to an enforcer that joins.
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": "false",
                "auto.offset.reset": "latest",
                "log_level": "0",
            }
        )
        self._consumer.subscribe(
            [ENFORCER_TOPIC], on_assign=self._on_assign, on_revoke=self._on_lose, on_lost=self._on_lose
        )

    def is_held(self) -> bool:
        """Return whether this client believes that it holds the lock. This call blocks only if brokers do not answer.

        Raises EnforcerLockError if Kafka refuses the lock, and LeaseStoreError if the topic was deleted.
        """
        message = self._consumer.poll(0)
        error = message.error() if message is not None else None
        if error is not None and "AUTHORIZATION" in error.name():
            msg = f"can't use the enforcers' lock ({error.str()}): grant READ on topic and group {ENFORCER_TOPIC}"
            raise EnforcerLockError(msg)
        self._check_topic()
        return self._held

    def confirm(self) -> bool:
        """Ask the group coordinator whether we still hold the lock. Raises the same errors as `is_held`."""
        for _ in range(_TRIES):
            if not self.is_held():
                return False
            try:
                # Only a member of the current generation may commit. An evicted member notices here or at the next
                # heartbeat, and `is_held` turns false before the member rejoins.
                self._consumer.commit(offsets=[TopicPartition(ENFORCER_TOPIC, LOCK_PARTITION, 0)], asynchronous=False)
            except KafkaException as error:
                if name_of(error) == _GONE:
                    self._recreate_topic()
                    # Without the topic, no other enforcer can get the lock. So this enforcer may end leases, but can't
                    # log new leases.
                    return self._held
                # Retry, because the group may be rebalancing.
                self._consumer.poll(_PAUSE_S)
            else:
                return self._held
        return False

    def _check_topic(self) -> None:
        # Find a deleted topic early. Once the group notices the deletion, no enforcer holds the lock.
        if time.monotonic() < self._next_check_s:
            return
        self._next_check_s = time.monotonic() + _CHECK_INTERVAL_S
        try:
            found = self._consumer.list_topics(ENFORCER_TOPIC, _CHECK_TIMEOUT_S).topics[ENFORCER_TOPIC]
        except KafkaException:
            return
        if found.error is not None and found.error.name() == _GONE:
            self._recreate_topic()

    def _recreate_topic(self) -> None:
        """Recreate the deleted topic, then raise LeaseStoreError. Return if the topic can't be created."""
        try:
            ensure_enforcer_topic(self._settings)
        except EnforcerLockError:
            return
        msg = f"topic {ENFORCER_TOPIC!r} was deleted and has been recreated: without it no lease is taken or ended"
        raise LeaseStoreError(msg)

    def close(self) -> None:
        """Leave the group, so that a standby takes over at once."""
        self._consumer.unsubscribe()
        # If an assignment is still unanswered, librdkafka's `close` may wait forever (librdkafka's issue 4884), and no
        # other thread can run. A poll answers it.
        while self._consumer.poll(0) is not None:
            pass
        self._held = False
        self._consumer.close()

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._held and _has_lock(partitions):
            self._held = True
            self.times_taken += 1

    def _on_lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._held = self._held and not _has_lock(partitions)


def _has_lock(partitions: list[TopicPartition]) -> bool:
    return any(partition.partition == LOCK_PARTITION for partition in partitions)


def ensure_enforcer_topic(settings: Mapping[str, str]) -> None:
    """Create the lock's topic if it is missing. Raises EnforcerLockError unless the topic then has one partition."""
    try:
        ensure_topic(settings, ENFORCER_TOPIC, _TIMEOUT_S)
        # A second client may ask another broker, which may not know the new topic yet.
        count = await_topic(settings, ENFORCER_TOPIC, _TIMEOUT_S)
    except BrokerError as error:
        msg = (
            f"can't create topic {ENFORCER_TOPIC!r}, the enforcers' lock, on {settings['bootstrap.servers']}: {error}. "
            "Check the address and the right to CREATE, or create it with one partition"
        )
        raise EnforcerLockError(msg) from error
    if count != 1:
        msg = (
            f"topic {ENFORCER_TOPIC!r} has {count} partitions, not 1: enforcers of other versions would share the "
            f"lock. Stop all enforcers, delete the topic and start one enforcer, which recreates it"
        )
        raise EnforcerLockError(msg)
