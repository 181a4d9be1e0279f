"""Records that the tap writes, one class per topic. Structs, since a busy cluster makes many."""

from typing import Annotated

import msgspec

# Bounded, since anybody may have written the record: SQLite, Spark and Kafka know no larger numbers.
_Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), lt=2**15)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_ProducerId = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class ProduceEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `produce-events`, keyed by principal.

    Attributes:
        timestamp_ms: broker time at which the batch was appended, ms since the epoch.
        principal: such as `User:alice`, or `unknown`.
        producer_id: of the batch.
        producer_epoch: of the batch.
        broker_id: of the broker that appended it.
        topic: that it was appended to.
        partition: that it was appended to.
        client_id: free text of the client.
        transactional_id: free text of the client.
        correction: late owner of an id sent as `unknown` before; adds the id uncharged.
        repeated: reread after a crash, so it may have been sent before.
        learning: its broker is newly watched, so the id may be old; adds it uncharged.
        asked_at_ms: its broker is newly watched, but no broker held the id when all were asked at this time; charges it
            even while the stream learns.
        address: of the client, such as `10.0.0.7`.
    """

    timestamp_ms: int
    principal: str
    producer_id: int
    producer_epoch: int
    broker_id: int | None
    topic: str
    partition: int
    client_id: str | None = None
    transactional_id: str | None = None
    correction: bool = False
    repeated: bool = False
    learning: bool = False
    asked_at_ms: int | None = None
    address: str | None = None

    def key(self) -> bytes:
        """The key: one principal goes to one partition, in order."""
        return self.principal.encode()


class Binding(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the compacted topic `producer-principals`, keyed by producer id: its owner.

    Attributes:
        producer_id: that was handed out.
        producer_epoch: that was handed out with it.
        principal: such as `User:alice`.
        client_id: free text of the client.
        transactional_id: free text of the client, None for a merely idempotent producer.
        broker_id: of the broker that answered.
        timestamp_ms: when it was handed out; unchanged in later announcements.
    """

    producer_id: _ProducerId
    producer_epoch: _Int16
    principal: str
    client_id: str
    transactional_id: str | None = None
    broker_id: _Int32 | None = None
    timestamp_ms: _Int64 = 0

    def key(self) -> bytes:
        """The key: the producer id as text."""
        return str(self.producer_id).encode()

    def is_newer_than(self, other: "Binding") -> bool:
        """Whether this one was handed out later: by epoch first, since brokers' clocks differ."""
        return (self.producer_epoch, self.timestamp_ms) > (other.producer_epoch, other.timestamp_ms)


class ProducerInit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `producer-inits`: one answer to INIT_PRODUCER_ID, keyed by principal.

    Attributes:
        timestamp_ms: when it was answered.
        broker_id: of the broker that answered.
        principal: that asked.
        client_id: free text of the client.
        client_host: address that it asked from.
        transactional_id: free text of the client, None for a merely idempotent producer.
        producer_id: that the client already had, -1 if none.
        producer_epoch: of that, -1 if none.
        result_producer_id: that was handed out, -1 on an error.
        result_producer_epoch: of that, -1 on an error.
        error: `NONE`, or the name of Kafka's error.
        repeated: reread after a crash, so it may have been sent before.
    """

    timestamp_ms: int
    broker_id: int | None
    principal: str
    client_id: str
    client_host: str | None
    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    result_producer_id: int
    result_producer_epoch: int
    error: str
    repeated: bool = False

    def key(self) -> bytes:
        """The key: the principal."""
        return self.principal.encode()


class ProducerIdBlock(msgspec.Struct, frozen=True, gc=False):
    """A record of the topic `producer-id-blocks`: a block allocated to a broker, keyed by broker.

    Attributes:
        timestamp_ms: when the controller answered.
        broker_id: of the broker that asked.
        broker_epoch: of that broker.
        first_producer_id: of the block, -1 on an error.
        length: producer ids in the block, 0 on an error.
        error: Kafka's error code, 0 for none.
        throttle_time_ms: throttling of the broker.
    """

    timestamp_ms: int
    broker_id: int
    broker_epoch: int
    first_producer_id: int
    length: int
    error: int
    throttle_time_ms: int

    def key(self) -> bytes:
        """The key: the blocks of a broker stay in order."""
        return str(self.broker_id).encode()


class ProduceFailure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `produce-failures`: a partition of a PRODUCE request that was refused, keyed by principal.

    Attributes:
        timestamp_ms: when the broker answered.
        broker_id: of that broker.
        principal: that sent it.
        client_id: free text of the client.
        client_host: address that it came from.
        transactional_id: free text of the client.
        topic: target topic; may not exist, or be empty if the request names it by id only.
        partition: target partition.
        error: Kafka's error code, such as 47 for a fenced epoch and 45 for an out-of-order sequence.
    """

    timestamp_ms: int
    broker_id: int | None
    principal: str
    client_id: str
    client_host: str | None
    transactional_id: str | None
    topic: str
    partition: int
    error: int

    def key(self) -> bytes:
        """The key: the principal."""
        return self.principal.encode()


Record = ProduceEvent | Binding | ProducerInit | ProducerIdBlock | ProduceFailure
