"""Records that the tap writes, one class per topic. Structs, since a busy cluster makes many."""

import msgspec


class ProduceEvent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `produce-events`, keyed by principal.

    Attributes:
        timestamp_ms: broker time at which the batch was appended, ms since the epoch.
        principal: such as `User:alice`, or `unknown`.
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


class ProducerInit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A record of the topic `producer-inits`: one answer to INIT_PRODUCER_ID, keyed by principal.

    Attributes:
        timestamp_ms: when it was answered.
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
        timestamp_ms: when the controller allocated it.
        length: producer ids in the block.
    """

    timestamp_ms: int
    broker_id: int
    broker_epoch: int
    first_producer_id: int
    length: int

    def key(self) -> bytes:
        """The key: the blocks of a broker stay in order."""
        return str(self.broker_id).encode()


Record = ProduceEvent | ProducerInit | ProducerIdBlock
