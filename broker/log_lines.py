r"""Reads the lines that `log4j2-pid-quota.yaml` makes a broker write: pure, no file, no clock.

A line is one JSON object `{"ts", "thread", "logger", "message"}`. Four messages matter, seen on a running Kafka 4.3.1
(`...` stands for what is not read):

    [KafkaApi-1] Handling request:RequestHeader(apiKey=PRODUCE, ..., clientId=C, correlationId=7, headerVersion=2) --
        {...,partitionSizes=[ID:orders-0=70]} from connection ...;securityProtocol:SASL_PLAINTEXT,principal:User:bob
    [KafkaApi-1] Handling request:RequestHeader(apiKey=INIT_PRODUCER_ID, ..., clientId=C, ...) --
        InitProducerIdRequestData(transactionalId='T', ...) from connection ...;securityProtocol:...,principal:User:bob
    [KafkaApi-1] Completed T's InitProducerIdRequest with result InitProducerIdResult(11000,0,NONE) from client C.
    [ProducerStateManager partition=orders-0] Updated producer 11000 state to ProducerAppendInfo(...)

Client ids, transactional ids and the names of topics that do not exist are free text of the client and stand in there
unquoted. What a decision rests on is therefore read from the ends that only the broker writes: the principal from the
last `;securityProtocol:`, the partition from the beginning of its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from broker.errors import LogLineError

NO_PRODUCER_ID = -1

_PRODUCE = re.compile(r"\[KafkaApi-\d+\] Handling request:RequestHeader\(apiKey=PRODUCE, ")
_INIT = re.compile(r"\[KafkaApi-\d+\] Handling request:RequestHeader\(apiKey=INIT_PRODUCER_ID, ")
_COMPLETED = re.compile(r"\[KafkaApi-\d+\] Completed ")
_STATE = re.compile(
    r"\[ProducerStateManager partition=([^\]]+)-(\d+)\] Updated producer (-?\d+) state to "
    r"ProducerAppendInfo\(producerId=-?\d+, producerEpoch=(-?\d+), firstSequence=(-?\d+), lastSequence=-?\d+, "
    r"currentTxnFirstOffset=OptionalLong(\.empty|\[\d+\]), coordinatorEpoch=(-?\d+), "
)
_CLIENT_ID = re.compile(r"\(apiKey=[A-Z_]+, apiVersion=\d+, clientId=")
_CLIENT_ID_END = re.compile(r", correlationId=-?\d+, headerVersion=\d+\) -- ")
_INIT_DATA = "InitProducerIdRequestData(transactionalId="
_INIT_TAIL = re.compile(r", transactionTimeoutMs=-?\d+, producerId=(-?\d+), producerEpoch=(-?\d+)(?:, \w+=\w+)*\)\Z")
_RESULT = "'s InitProducerIdRequest with result InitProducerIdResult("
_RESULT_TAIL = re.compile(r"(-?\d+),(-?\d+),(\w+)\) from client ")
# A client id crafted to look like many requests has that many readings; nobody honest has a second one.
_MAX_READINGS = 8


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One record of the log, not yet understood. A Struct, since each line of the log passes through one.

    Attributes:
        ts: broker time in ms since the epoch.
        thread: name of the broker's thread.
        logger: last part of the logger's name.
        message: what was logged.
    """

    ts: int
    thread: str
    logger: str
    message: str


@dataclass(frozen=True)
class ProduceRequest:
    """A PRODUCE request as it arrived; may still be refused.

    Attributes:
        principal: such as `User:alice`.
        client_id: free text of the client.
        text: the whole message up to the principal, for `names`.
    """

    principal: str
    client_id: str
    text: str

    def names(self, topic: str, partition: int) -> bool:
        """Whether the request brings records for that partition.

        From version 13 on a request holds topic ids, and the broker logs `ID:-0=70`: then the number of the partition
        has to do. A client may put such text into its client.id, which only charges itself.
        """
        return f":{topic}-{partition}=" in self.text or f":-{partition}=" in self.text


@dataclass(frozen=True)
class ProducerStateUpdate:
    """The broker appended a batch of an idempotent or transactional producer.

    Attributes:
        topic: of the batch.
        partition: of the batch.
        producer_id: that the batch carries.
        producer_epoch: of that producer.
        transactional: the batch belongs to a transaction, or is the marker that ends one.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    transactional: bool


@dataclass(frozen=True)
class InitProducerIdRequest:
    """A client asks for a producer id.

    Attributes:
        principal: such as `User:alice`.
        client_id: free text of the client.
        transactional_id: free text of the client, None for a merely idempotent producer.
        producer_id: that the client has already, -1 if none.
        producer_epoch: of that, -1 if none.
    """

    principal: str
    client_id: str
    transactional_id: str | None
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class InitProducerIdResult:
    """The answer to an `InitProducerIdRequest`.

    Attributes:
        transactional_id: `null` also for none: only the request tells the two apart.
        client_id: free text of the client.
        producer_id: that was handed out, -1 on an error.
        producer_epoch: of that, -1 on an error.
        error: `NONE`, or the name of Kafka's error.
    """

    transactional_id: str
    client_id: str
    producer_id: int
    producer_epoch: int
    error: str


_decoder = msgspec.json.Decoder(LogLine)


def parse_line(line: bytes) -> LogLine:
    """Decode one line of the file.

    Raises:
        LogLineError: it is not a JSON object of the four fields.
    """
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"not a line of the tapped log ({error}): write it with the appender of log4j2-pid-quota.yaml"
        raise LogLineError(msg) from error


def is_produce(message: str) -> bool:
    """Whether this is the arrival of a PRODUCE request."""
    return _PRODUCE.match(message) is not None


def is_init(message: str) -> bool:
    """Whether this is the arrival of an INIT_PRODUCER_ID request."""
    return _INIT.match(message) is not None


def is_init_result(message: str) -> bool:
    """Whether this is the answer to an INIT_PRODUCER_ID request."""
    return _COMPLETED.match(message) is not None and _RESULT in message


def parse_produce(message: str) -> ProduceRequest | None:
    """Read a message for which `is_produce` holds; None if it is cut or of an unknown form."""
    request = _request(message)
    if request is None:
        return None
    text, principal = request
    start = _CLIENT_ID.search(text)
    # The last one: a client.id may hold the words that end it.
    end = text.rfind(", correlationId=")
    if start is None or end < start.end():
        return None
    return ProduceRequest(principal, text[start.end() : end], text)


def parse_state(message: str) -> ProducerStateUpdate | None:
    """Read a message of `ProducerStateManager`; None if it is something else."""
    match = _STATE.match(message)
    if match is None:
        return None
    topic, partition, producer_id, epoch, first_sequence, open_transaction, coordinator_epoch = match.groups()
    # Markers have no sequence; a coordinator's epoch stays with a producer once its first transaction has ended.
    transactional = open_transaction != ".empty" or coordinator_epoch != "-1" or first_sequence == "-1"
    return ProducerStateUpdate(topic, int(partition), int(producer_id), int(epoch), transactional)


def parse_init(message: str) -> list[InitProducerIdRequest]:
    """Read a message for which `is_init` holds: every way in which it can be read, normally one.

    Where the client id ends and the transactional id begins cannot be told if either holds the other's delimiter.
    The answer decides: it repeats both (see `broker.attribution`).
    """
    request = _request(message)
    if request is None:
        return []
    text, principal = request
    start, tail = _CLIENT_ID.search(text), _INIT_TAIL.search(text)
    if start is None or tail is None:
        return []
    readings = []
    for end in _CLIENT_ID_END.finditer(text, start.end()):
        if not text.startswith(_INIT_DATA, end.end()):
            continue
        quoted = text[end.end() + len(_INIT_DATA) : tail.start()]
        if quoted != "null" and not (len(quoted) > 1 and quoted[0] == quoted[-1] == "'"):
            continue
        transactional_id = None if quoted == "null" else quoted[1:-1]
        client_id = text[start.end() : end.start()]
        readings.append(InitProducerIdRequest(principal, client_id, transactional_id, int(tail[1]), int(tail[2])))
        if len(readings) == _MAX_READINGS:
            break
    return readings


def parse_init_result(message: str) -> list[InitProducerIdResult]:
    """Read a message for which `is_init_result` holds: every way in which it can be read, normally one."""
    head = _COMPLETED.match(message)
    if head is None or not message.endswith("."):
        return []
    readings: list[InitProducerIdResult] = []
    at = message.find(_RESULT, head.end())
    while at >= 0 and len(readings) < _MAX_READINGS:
        tail = _RESULT_TAIL.match(message, at + len(_RESULT))
        if tail is not None:
            client_id = message[tail.end() : -1]
            readings.append(
                InitProducerIdResult(message[head.end() : at], client_id, int(tail[1]), int(tail[2]), tail[3])
            )
        at = message.find(_RESULT, at + 1)
    return readings


def _request(message: str) -> tuple[str, str] | None:
    """The request without what the broker says of the connection, and the principal."""
    at = message.rfind(";securityProtocol:")
    _, found, principal = message[at:].partition(",principal:")
    end = message.rfind(" from connection ", 0, at)
    if at < 0 or not found or end < 0:
        return None
    return message[:end], principal
