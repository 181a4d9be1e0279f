"""Records that the tap writes, one class per topic, and the requests of streams.

The classes are msgspec structs for speed, because a cluster produces many records.
"""

import msgspec


class ProduceEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `produce-events`, keyed by principal.

    Attributes:
        timestamp_ms: broker time at which the batch was appended, ms since the epoch.
        principal: such as `User:alice`, or `unknown`.
        client_id: text that the client chooses, like `transactional_id`.
        correction: the event names the owner of an id that the tap sent as `unknown` before. The id is not charged.
        repeated: the tap reread this event after a crash, so it may have sent the event before.
        learning: the tap has just begun to watch the broker, so the id may be old. The id is not charged.
        asked_at_ms: when the tap asked all brokers and none held the id. The id is charged even while the stream
            learns, if the tap asked after the learning time began.
        address: address of the client, such as `10.0.0.7`.
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
        """The key: all events of a principal go to one partition, in order."""
        return self.principal.encode()


class ProducerInit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `producer-inits`: one answer to INIT_PRODUCER_ID, keyed by principal.

    The fields are those of an `InitLine`, with `client_host` for its address, and `repeated` as in `ProduceEvent`.
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
    """A record of the topic `producer-id-blocks`, keyed by broker: a block that the controller allocated to it."""

    timestamp_ms: int
    broker_id: int
    broker_epoch: int
    first_producer_id: int
    length: int

    def key(self) -> bytes:
        """The key: the broker, so that its blocks stay in order."""
        return str(self.broker_id).encode()


Record = ProduceEvent | ProducerInit | ProducerIdBlock


class LearningRequest(msgspec.Struct, frozen=True):
    """A record of the topic `pid-quota-requests`, keyed by stream: its last request that all taps ask the brokers.

    The stream learns between these times, in ms since the epoch. A producer id is new if no broker holds it when a tap
    asks after `learns_from_ms`.
    """

    learns_from_ms: int
    learns_until_ms: int
