"""The tap's records, one type per topic, and the requests of streams."""

import msgspec


class ProduceEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `produce-events`, keyed by principal.

    Attributes:
        timestamp_ms: broker time at which the batch was appended, ms since the epoch.
        principal: such as `User:alice`, or `unknown`.
        correction: the event names the owner of an id that the tap sent as `unknown` before. The id is not charged.
        repeated: a crashed tap may have sent the event before.
        learning: the tap has just begun to watch the broker, so the id may be old. The id is not charged.
        asked_at_ms: when the tap asked all brokers, and none held the id. The id is charged even while the stream
            learns, if the tap asked the brokers after the stream began to learn.
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
        """Return the key. All events of a principal go to one partition, in order."""
        return self.principal.encode()


class ProducerInit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `producer-inits`: one answer to INIT_PRODUCER_ID, keyed by principal.

    See `InitLine` for the fields. `client_host` is the `address` there. `repeated` is as in `ProduceEvent`.
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
        """Return the key: the principal."""
        return self.principal.encode()


class ProducerIdBlock(msgspec.Struct, frozen=True, gc=False):
    """A record of the topic `producer-id-blocks`, keyed by broker: a block that the controller gave to the broker."""

    timestamp_ms: int
    broker_id: int
    broker_epoch: int
    first_producer_id: int
    length: int

    def key(self) -> bytes:
        """Return the key, which keeps a broker's blocks in order."""
        return str(self.broker_id).encode()


Record = ProduceEvent | ProducerInit | ProducerIdBlock


class LearningRequest(msgspec.Struct, frozen=True):
    """A record of the topic `pid-quota-requests`, keyed by stream: a request that all taps ask the brokers for ids.

    The stream learns between the two times, in ms since the epoch.
    """

    learns_from_ms: int
    learns_until_ms: int
