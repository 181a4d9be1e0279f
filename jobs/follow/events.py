"""The command `pid-quota events`."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

import msgspec
from confluent_kafka import Message

from broker.kafka.config import KafkaConfig
from broker.kafka.tail import TopicReader
from jobs.follow.lines import FollowOption, SinceOption, emit, start
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile, PrincipalOption, TopicOption, full_name
from jobs.output.human import human, time_of
from jobs.services.stopping import until_interrupted
from tables.times import to_ms, to_time
from wire.event_record import EVENTS_VERSION, events_of
from wire.topics import PRODUCE_EVENTS

_WAIT_S = 0.5
_YEAR_5000_MS = 95_617_584_000_000
_WORDS = {"broker_id": "broker", "client_id": "client", "address": "from", "transactional_id": "transaction"}
_MARKS = ("correction", "repeated", "learning")


def events(
    bootstrap_servers: BootstrapServers,
    follow: FollowOption = False,
    since: SinceOption = None,
    principal: PrincipalOption = None,
    topic: TopicOption = PRODUCE_EVENTS,
    kafka_config: KafkaConfigFile = None,
    as_json: JsonOption = False,
) -> None:
    """Show the taps' produce events, one per line: who appended with which producer id, and where."""
    begin = start(since, datetime.now(timezone.utc), follow=follow)
    wanted = principal and full_name(principal)
    settings = KafkaConfig.load(bootstrap_servers, kafka_config).client()
    with until_interrupted(), TopicReader(settings, topic, start="end" if begin is None else to_ms(begin)) as reader:
        _show(reader.read_to_end(), wanted, as_json)
        while follow:
            _show(reader.poll(_WAIT_S), wanted, as_json)


def _show(messages: Iterable[Message], principal: str | None, as_json: bool) -> None:
    for event in _decoded(messages):
        if principal is None or event.get("principal") == principal:
            emit(_line(event), event, as_json=as_json)


def _decoded(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    for message in messages:
        value = message.value() or b""
        try:
            record = json.loads(value)
            if isinstance(record, dict):
                several = record.get("version") == EVENTS_VERSION
                yield from msgspec.to_builtins(events_of(value)) if several else [record]
                continue
        except (ValueError, RecursionError):
            pass
        # The stream writes such records to `quarantined_events`.
        yield {"no_event": value.decode(errors="backslashreplace")}


def _line(event: dict[str, Any]) -> str:
    if "no_event" in event:
        return f"no event: {event['no_event']}"
    at = event.get("timestamp_ms")
    when = time_of(to_time(at)) if isinstance(at, int) and abs(at) < _YEAR_5000_MS else human(at)
    parts = [when, human(event.get("principal"))]
    parts += [f"pid {human(event.get('producer_id'))}", f"{event.get('topic')}-{event.get('partition')}"]
    parts += [f"{word} {event[name]}" for name, word in _WORDS.items() if event.get(name) is not None]
    return "  ".join([*parts, *(mark for mark in _MARKS if event.get(mark))])
