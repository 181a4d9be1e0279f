"""Parses Kafka's request logger (`kafka.request.logger` at DEBUG): allocated blocks and failed PRODUCE requests.

A line is `Completed request:` and a JSON object, in which client texts are quoted. On brokers this logger is far more
expensive than the others, so our settings leave it off there; on controllers it is cheap. A stock broker logs failed
PRODUCE requests nowhere else, and even here without the producer id.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from broker.errors import LogLineError
from wire.records import ProduceFailure, ProducerIdBlock

LOGGER = "logger"
"""Last part of `kafka.request.logger`, as our layout writes it."""

_PREFIX = "Completed request:"
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Header(msgspec.Struct, rename="camel"):
    request_api_key_name: str
    client_id: str | None = None


class _Line(msgspec.Struct, rename="camel"):
    request_header: _Header
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str
    principal: str


class _BlockRequest(msgspec.Struct, rename="camel"):
    broker_id: _Int64
    broker_epoch: _Int64


class _BlockResponse(msgspec.Struct, rename="camel"):
    throttle_time_ms: _Int64
    error_code: _Int64
    producer_id_start: _Int64
    producer_id_len: _Int64


class _ProduceRequest(msgspec.Struct, rename="camel"):
    transactional_id: str | None = None


class _PartitionResponse(msgspec.Struct, rename="camel"):
    index: _Int64
    error_code: _Int64


class _TopicResponse(msgspec.Struct, rename="camel"):
    partition_responses: list[_PartitionResponse]
    name: str = ""


class _ProduceResponse(msgspec.Struct):
    responses: list[_TopicResponse]


_decode_line = msgspec.json.Decoder(_Line).decode


def parse_request_log(message: str, timestamp_ms: int, broker_id: int | None) -> list[ProducerIdBlock | ProduceFailure]:
    """Parse a message of the request logger.

    Args:
        message: the text logged.
        timestamp_ms: broker time, ms since the epoch.
        broker_id: of the server that logged it.

    Returns:
        A block of producer ids, the partitions for which a PRODUCE request failed, or nothing.

    Raises:
        LogLineError: the message is malformed.
    """
    if not message.startswith(_PREFIX):
        return []
    try:
        line = _decode_line(message[len(_PREFIX) :])
        name = line.request_header.request_api_key_name
        if name == "ALLOCATE_PRODUCER_IDS":
            return [_block(line, timestamp_ms)]
        if name == "PRODUCE":
            return list(_failures(line, timestamp_ms, broker_id))
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"not a line of Kafka's request logger ({error}): check that no other logger's name ends in .{LOGGER}"
        raise LogLineError(msg) from error
    return []


def client_host(connection: str) -> str | None:
    """The client's address in `host:port-host:port-number-number`; None if malformed.

    Examples:
        >>> client_host("10.0.0.1:9092-10.0.0.7:39286-4-2")
        '10.0.0.7'
        >>> client_host("0:0:0:0:0:0:0:1:9092-0:0:0:0:0:0:0:2:39286-4")
        '0:0:0:0:0:0:0:2'
        >>> client_host("b-1.kafka-x.example:9092-10.0.0.7:39286-4")
        '10.0.0.7'
    """
    # The client's side is always an address; only the broker's may be a name with dashes.
    for part in reversed(connection.split("-")):
        host, colon, port = part.rpartition(":")
        if colon and host and port.isdigit():
            return host
    return None


def _block(line: _Line, timestamp_ms: int) -> ProducerIdBlock:
    asked = msgspec.json.decode(line.request, type=_BlockRequest)
    answer = msgspec.json.decode(line.response, type=_BlockResponse)
    return ProducerIdBlock(
        timestamp_ms,
        asked.broker_id,
        asked.broker_epoch,
        answer.producer_id_start,
        answer.producer_id_len,
        answer.error_code,
        answer.throttle_time_ms,
    )


def _failures(line: _Line, timestamp_ms: int, broker_id: int | None) -> Iterator[ProduceFailure]:
    asked = msgspec.json.decode(line.request, type=_ProduceRequest)
    for topic in msgspec.json.decode(line.response, type=_ProduceResponse).responses:
        for partition in topic.partition_responses:
            if partition.error_code != 0:
                yield ProduceFailure(
                    timestamp_ms,
                    broker_id,
                    line.principal,
                    line.request_header.client_id or "",
                    client_host(line.connection),
                    asked.transactional_id,
                    topic.name,
                    partition.index,
                    partition.error_code,
                )
