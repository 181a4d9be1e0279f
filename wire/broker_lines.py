"""The lines that the class `pidquota.Reporter` (`jvm/broker`) writes to a file on each broker. A line is a JSON object.

The class writes one `BatchLine` per principal, client id and producer id in each tick (10 s by default). It numbers the
lines of a run from 1, so a missing number is a lost line.
"""

from typing import Annotated

import msgspec

MAX_LINE_BYTES = 64 * 1024
"""A longer line is not from the class. The class's lines are at most half as long."""

LINE_FORMAT = 1

REPORTER_CLASS = "pidquota.Reporter"
"""Name of the class, for a broker's `metric.reporters`."""

_Number = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
_Timestamp = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
_Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), lt=2**15)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_BrokerId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class BrokerLine(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """The fields of every line: its number in the run, from 1, and the broker's time, in ms since the epoch."""

    number: _Number
    timestamp_ms: _Timestamp
    broker_id: _BrokerId


class BatchLine(BrokerLine, frozen=True, gc=False, tag="batch"):
    """A record batch of an idempotent or transactional producer, and fields of its PRODUCE request.

    The class cuts client ids and transactional ids to 256 characters, and principals to 4,096. It appends a digest of
    the whole text to each cut text.
    """

    principal: str
    producer_id: _Int64
    producer_epoch: _Int16
    topic: str
    partition: _Int32
    address: str
    client_id: str | None = None
    transactional_id: str | None = None
    api_version: _Int16 = -1


class InitLine(BrokerLine, frozen=True, gc=False, tag="init"):
    """An answer to INIT_PRODUCER_ID, and its request. The class cuts long texts as in `BatchLine`.

    Attributes:
        error: `NONE`, or the name of Kafka's error.
        transactional_id: None for a merely idempotent producer.
        producer_id: the id that the client already had, or -1.
        result_producer_id: the id that the client got; -1 after an error.
    """

    principal: str
    address: str
    error: str
    client_id: str | None = None
    transactional_id: str | None = None
    producer_id: _Int64 = -1
    producer_epoch: _Int16 = -1
    result_producer_id: _Int64 = -1
    result_producer_epoch: _Int16 = -1


class ClassState(BrokerLine, frozen=True, gc=False):
    """The state of the class. The counters start at 0 with each run.

    Attributes:
        format: version of the lines, `LINE_FORMAT`.
        metadata_log: folder of the broker's copy of the metadata log.
        problem: why the class can't see any batch, such as an unknown version of Kafka, or None.
        dropped_lines: lines that the class lost because its queue or the disk was full.
        dropped_inits: answers to INIT_PRODUCER_ID that exceeded the class's limit per second.
        ambiguous_inits: answers to INIT_PRODUCER_ID whose requests the class could not identify.
        forgotten_ticks: how often the class's memory of a tick's lines was full. The class may then repeat lines.
    """

    run: str
    format: _Int32
    class_version: str = ""
    kafka_version: str = ""
    tick_ms: _Count = 0
    metadata_log: str | None = None
    problem: str | None = None
    dropped_lines: _Count = 0
    dropped_inits: _Count = 0
    ambiguous_inits: _Count = 0
    errors: _Count = 0
    forgotten_ticks: _Count = 0


class StartLine(ClassState, frozen=True, gc=False, tag="start"):
    """The first line of a run."""


class AliveLine(ClassState, frozen=True, gc=False, tag="alive"):
    """A line that the class writes every 10 s."""


class StopLine(ClassState, frozen=True, gc=False, tag="stop"):
    """The last line of a run that ended cleanly.

    Attributes:
        shutdown: whether the broker shut down. If not, someone unloaded the class.
    """

    shutdown: bool = False


Line = BatchLine | InitLine | StartLine | AliveLine | StopLine

decode_line = msgspec.json.Decoder(Line).decode
"""Decode a line.

Raises:
    msgspec.DecodeError: If the text is not such a line.
"""
