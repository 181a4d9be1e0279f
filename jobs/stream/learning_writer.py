"""Writes a stream's learning requests. A tap that reads a request asks the brokers which PIDs they hold."""

import logging
from collections.abc import Mapping

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from broker.errors import BrokerError
from broker.kafka.topics import ensure_topic
from wire.records import LearningRequest
from wire.topics import LEARNING_REQUESTS

_TIMEOUT_S = 5.0
_UNREQUESTED = "can't ask the taps to query the brokers (%s), so this stream learns by waiting. Grant WRITE on %s"

_log = logging.getLogger(__name__)


def write_request(config: Mapping[str, str], stream: str, request: LearningRequest) -> None:
    """Write a request with the stream's id as key. On failure, log a warning.

    The user of `config` needs WRITE on the topic, and CREATE if the topic is missing.
    """
    reason = _write(config, stream, request)
    if reason:
        _log.warning(_UNREQUESTED, reason, LEARNING_REQUESTS)


def _write(config: Mapping[str, str], stream: str, request: LearningRequest) -> str:
    """Write a request. Return the reason for a failure, or an empty text."""
    errors: list[str] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error.str())

    try:
        # Create a missing topic first, because a record for a missing topic would only time out.
        ensure_topic(config, LEARNING_REQUESTS, _TIMEOUT_S)
    except BrokerError as error:
        return str(error)
    # The producer is not idempotent, so that the stream itself uses no producer id.
    settings = {"enable.idempotence": "false", "acks": "all", "log_level": "0"}
    producer = Producer({**config, **settings, "message.timeout.ms": str(round(_TIMEOUT_S * 1000))})
    producer.produce(LEARNING_REQUESTS, msgspec.json.encode(request), stream.encode(), on_delivery=note)
    left = producer.flush(2 * _TIMEOUT_S)
    return errors[0] if errors else "no answer" if left else ""
