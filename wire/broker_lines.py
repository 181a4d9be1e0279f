"""Lines of the file that the class in a broker writes (`jvm/broker`), one JSON object each.

A broker writes one line per principal, client id and producer id in each tick (10 s by default). Lines of a run carry
consecutive numbers: a missing number is a lost line.
"""

from typing import Annotated

import msgspec

MAX_LINE_BYTES = 64 * 1024
"""The class writes lines of at most half of it; a longer one is somebody else's."""

LINE_FORMAT = 1

REPORTER_CLASS = "pidquota.Reporter"
"""Writes them; for a broker's `metric.reporters`."""

_Number = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
_Timestamp = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
_Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), lt=2**15)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_BrokerId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class BrokerLine(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """The fields of every line: its number in the run, from 1, and the broker's clock in ms since the epoch."""

    number: _Number
    timestamp_ms: _Timestamp
    broker_id: _BrokerId


class BatchLine(BrokerLine, frozen=True, gc=False, tag="batch"):
    """A batch of an idempotent or transactional producer that a PRODUCE request appended, with fields of the request.

    Client ids and transactional ids are free text of the client. The class cuts them at 256 characters and principals
    (such as `User:alice`) at 4,096, and appends a digest of the whole text to those.
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
    """An answer to INIT_PRODUCER_ID, with its request; its texts are like those of `BatchLine`.

    Attributes:
        error: `NONE`, or the name of Kafka's error.
        transactional_id: None for a merely idempotent producer.
        producer_id: that the client already had, with its epoch; -1 if none.
        result_producer_id: that was handed out, with its epoch; -1 on an error.
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
    """State of the class; counters are since the start of its run.

    Attributes:
        run: identifies the run of the class.
        format: version of the lines, `LINE_FORMAT`.
        tick_ms: a producer id is written once per tick.
        metadata_log: folder of the broker's copy of the metadata log.
        problem: why the class can't see any batch, such as an unknown version of Kafka; None if it can.
        dropped_lines: lines that were not written: the queue or the disk was full.
        dropped_inits: answers to INIT_PRODUCER_ID beyond the limit per second.
        ambiguous_inits: answers whose request is not certain.
        errors: exceptions in the class.
        forgotten_ticks: how often the memory of a tick was too small, so that repeats were written.
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
    """Written every 10 s."""


class StopLine(ClassState, frozen=True, gc=False, tag="stop"):
    """The last line of a run that ended in good order.

    Attributes:
        shutdown: the broker shuts down; otherwise the class was taken out of a broker that goes on.
    """

    shutdown: bool = False


Line = BatchLine | InitLine | StartLine | AliveLine | StopLine

decode_line = msgspec.json.Decoder(Line).decode
"""Decode a line.

Raises:
    msgspec.DecodeError: it is no such line.
"""
