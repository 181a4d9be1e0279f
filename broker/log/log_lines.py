r"""Parses the messages that our log settings make a broker write. Pure: no file, no clock.

Four of them matter, as on Kafka 4.3.1 and 3.9.1 (`...` is not parsed; before 4.0 there is no `ID:`):

    [KafkaApi-1] Handling request:RequestHeader(apiKey=PRODUCE, ..., clientId=C, correlationId=7, headerVersion=2) --
        {...,partitionSizes=[ID:orders-0=70]} from connection ...;securityProtocol:SASL_PLAINTEXT,principal:User:bob
    [KafkaApi-1] Handling request:RequestHeader(apiKey=INIT_PRODUCER_ID, ..., clientId=C, ...) --
        InitProducerIdRequestData(transactionalId='T', ...) from connection ...;securityProtocol:...,principal:User:bob
    [KafkaApi-1] Completed T's InitProducerIdRequest with result InitProducerIdResult(11000,0,NONE) from client C.
    [ProducerStateManager partition=orders-0] Updated producer 11000 state to ProducerAppendInfo(...)

A truncated line ends in `...`, as no principal does; the last principal found in it would be one forged by a client.

Client ids, transactional ids and names of unknown topics are unquoted free text of the client. So decisions rest only
on parts that the broker writes at the ends: the principal after the last `;securityProtocol:`, the partition at the
beginning. No search takes more than linear time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from broker.log.request_log import client_host

NO_PRODUCER_ID = -1

CUT = "..."
"""End of a message truncated by log4j2."""

# Digits are bounded: client text may hold any number.
_HANDLING = re.compile(r"\[KafkaApi-([0-9]{1,10})\] Handling request:")
_PRODUCE = re.compile(r"\[KafkaApi-[0-9]{1,10}\] Handling request:RequestHeader\(apiKey=PRODUCE, ")
_INIT = re.compile(r"\[KafkaApi-[0-9]{1,10}\] Handling request:RequestHeader\(apiKey=INIT_PRODUCER_ID, ")
_COMPLETED = re.compile(r"\[KafkaApi-[0-9]{1,10}\] Completed ")
_STATE = re.compile(
    r"\[ProducerStateManager partition=([^\]]+)-([0-9]{1,10})\] Updated producer (-?[0-9]{1,19}) state to "
    r"ProducerAppendInfo\(producerId=-?[0-9]{1,19}, producerEpoch=(-?[0-9]{1,6}), "
    r"firstSequence=(-?[0-9]{1,10}), lastSequence=-?[0-9]{1,10}, "
    r"currentTxnFirstOffset=OptionalLong(\.empty|\[[0-9]{1,19}\]), coordinatorEpoch=-?[0-9]{1,10}, "
)
_CLIENT_ID = re.compile(r"\(apiKey=[A-Z_]+, apiVersion=[0-9]{1,5}, clientId=")
_CLIENT_ID_END = re.compile(
    r", correlationId=-?[0-9]{1,10}, headerVersion=[0-9]{1,5}\) -- InitProducerIdRequestData\(transactionalId="
)
_INIT_TAIL = re.compile(
    r", transactionTimeoutMs=-?[0-9]{1,10}, producerId=(-?[0-9]{1,19}), producerEpoch=(-?[0-9]{1,6})"
    r"(?:, \w+=\w+)*\)\Z"
)
_RESULT = "'s InitProducerIdRequest with result InitProducerIdResult("
_RESULT_TAIL = re.compile(r"(-?[0-9]{1,19}),(-?[0-9]{1,6}),([A-Z_]{1,80})\) from client ")

MAX_PRODUCER_ID = 2**63 - 1


class ProduceRequest(msgspec.Struct, frozen=True, gc=False):
    """A PRODUCE request as it arrived; it may still be refused. A Struct, since every batch makes one.

    Attributes:
        principal: such as `User:alice`.
        client_id: free text of the client.
        text: the whole message up to the principal, for `names`.
    """

    principal: str
    client_id: str
    text: str

    def names(self, topic: str, partition: int) -> bool:
        """Whether the request has records for that partition.

        From version 13 on a request holds topic ids, and the broker logs `ID:-0=70`: then the partition's number must
        do. Before Kafka 4 there is no id, only `[orders-0=70,orders-1=70]`. A client that forges such text in its
        client.id only charges itself.
        """
        text = self.text
        if f":{topic}-{partition}=" in text:
            return True
        return f":-{partition}=" in text or f"[{topic}-{partition}=" in text or f",{topic}-{partition}=" in text


class ProducerStateUpdate(msgspec.Struct, frozen=True, gc=False):
    """A batch of an idempotent or transactional producer that the broker appended.

    Attributes:
        topic: of the batch.
        partition: of the batch.
        producer_id: that the batch carries.
        producer_epoch: of that producer.
        transactional: the batch belongs to a transaction, or is the marker that ends one.
        marker: it is a transaction marker, written by the broker.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    transactional: bool
    marker: bool


@dataclass(frozen=True)
class InitProducerIdRequest:
    """An INIT_PRODUCER_ID request. Client id and transactional id are in `text`; see `is_of`.

    Attributes:
        principal: such as `User:alice`.
        client_host: address of the client.
        producer_id: that the client already has, -1 if none.
        producer_epoch: of that, -1 if none.
        text: from the client id to the end of the transactional id.
    """

    principal: str
    client_host: str | None
    producer_id: int
    producer_epoch: int
    text: str

    def is_of(self, client_id: str, transactional_id: str | None) -> bool:
        """Whether it can be read as a request of that client for that transactional id."""
        if not self.text.startswith(client_id):
            return False
        end = _CLIENT_ID_END.match(self.text, len(client_id))
        quoted = "null" if transactional_id is None else f"'{transactional_id}'"
        return end is not None and len(self.text) - end.end() == len(quoted) and self.text.endswith(quoted)

    def readings(self) -> Iterator[tuple[str, str | None]]:
        """All (client id, transactional id) for which `is_of` holds: one, unless a client forged delimiters."""
        for end in _CLIENT_ID_END.finditer(self.text):
            quoted = self.text[end.end() :]
            if quoted == "null":
                yield self.text[: end.start()], None
            elif len(quoted) > 1 and quoted[0] == quoted[-1] == "'":
                yield self.text[: end.start()], quoted[1:-1]


@dataclass(frozen=True)
class InitProducerIdResult:
    """The answer to an `InitProducerIdRequest`.

    Attributes:
        transactional_id: `null` may also mean none; only the request tells.
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


def is_producer_id(number: int) -> bool:
    """Whether it is a valid producer id, or -1 for none."""
    return NO_PRODUCER_ID <= number <= MAX_PRODUCER_ID


def handling_broker(message: str) -> int | None:
    """Broker id, if the message logs the arrival of any request."""
    match = _HANDLING.match(message)
    return int(match[1]) if match else None


def is_produce(message: str) -> bool:
    """Whether the message logs the arrival of a PRODUCE request."""
    return _PRODUCE.match(message) is not None


def is_init(message: str) -> bool:
    """Whether the message logs the arrival of an INIT_PRODUCER_ID request."""
    return _INIT.match(message) is not None


def is_init_result(message: str) -> bool:
    """Whether the message logs the answer to an INIT_PRODUCER_ID request."""
    return _COMPLETED.match(message) is not None and _RESULT in message


def parse_produce(message: str) -> ProduceRequest | None:
    """Parse a message for which `is_produce` holds; None if it is truncated or malformed."""
    request = _request(message)
    if request is None:
        return None
    text, _, principal = request
    start = _CLIENT_ID.search(text)
    # The last one: a client.id may hold its own delimiter.
    end = text.rfind(", correlationId=")
    if start is None or end < start.end():
        return None
    return ProduceRequest(principal, text[start.end() : end], text)


def parse_state(message: str) -> ProducerStateUpdate | None:
    """Parse a message of `ProducerStateManager`; None for other messages."""
    match = _STATE.match(message)
    if match is None or not is_producer_id(int(match[3])):
        return None
    topic, partition, producer_id, epoch, first_sequence, open_transaction = match.groups()
    # Markers have no sequence. The coordinator's epoch says nothing about a batch: it stays with a producer id after
    # its first transaction in the partition.
    marker = first_sequence == "-1"
    transactional = open_transaction != ".empty" or marker
    return ProducerStateUpdate(topic, int(partition), int(producer_id), int(epoch), transactional, marker)


def parse_init(message: str) -> InitProducerIdRequest | None:
    """Parse a message for which `is_init` holds; None if it is truncated or malformed.

    The border between client id and transactional id is ambiguous if either holds the delimiter. The answer, which
    repeats both, decides (see `broker.attribution.pending_inits`).
    """
    request = _request(message)
    if request is None:
        return None
    text, connection, principal = request
    # The last one is written by the broker.
    at = text.rfind(", transactionTimeoutMs=")
    start, tail = _CLIENT_ID.search(text), _INIT_TAIL.match(text, max(0, at))
    if start is None or tail is None or start.end() > at:
        return None
    if not is_producer_id(int(tail[1])):
        return None
    parsed = InitProducerIdRequest(
        principal, client_host(connection), int(tail[1]), int(tail[2]), text[start.end() : tail.start()]
    )
    return parsed if next(parsed.readings(), None) is not None else None


def parse_init_result(message: str) -> Iterator[InitProducerIdResult]:
    """Parse a message for which `is_init_result` holds; yield every possible reading, normally one."""
    head = _COMPLETED.match(message)
    if head is None or not message.endswith("."):
        return
    at = message.find(_RESULT, head.end())
    while at >= 0:
        tail = _RESULT_TAIL.match(message, at + len(_RESULT))
        if tail is not None and is_producer_id(int(tail[1])):
            transactional_id, client_id = message[head.end() : at], message[tail.end() : -1]
            yield InitProducerIdResult(transactional_id, client_id, int(tail[1]), int(tail[2]), tail[3])
        at = message.find(_RESULT, at + 1)


def _request(message: str) -> tuple[str, str, str] | None:
    """Request, connection and principal; None if the line is truncated."""
    if message.endswith(CUT):
        return None
    at = message.rfind(";securityProtocol:")
    _, found, principal = message[at:].partition(",principal:")
    end = message.rfind(" from connection ", 0, at)
    if at < 0 or not found or end < 0:
        return None
    return message[:end], message[end + len(" from connection ") : at], principal
